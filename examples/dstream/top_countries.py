"""The three busiest addresses, with the country of each from a file."""

from headwater.dstream import SparkContext, StreamingContext

sc = SparkContext("local[2]", "TopCountries")
ssc = StreamingContext(sc, 10)
ssc.checkpoint("checkpoint/top_countries")

table = sc.textFile("../web_log/countries.csv").map(lambda line: tuple(line.split(",")))
countries = table.filter(lambda pair: pair[0] != "ip").cache()

lines = ssc.socketTextStream("localhost", 9999)
ips = lines.map(lambda line: (line.split(" ")[1], 1))
counts = ips.reduceByKeyAndWindow(lambda a, b: a + b, lambda a, b: a - b, 30, 10)


def top_three(rdd):
    ranked = rdd.sortBy(lambda pair: (-pair[1], pair[0]))
    return ranked.zipWithIndex().filter(lambda pair: pair[1] < 3).keys()


counts.transform(top_three).transform(lambda rdd: rdd.leftOuterJoin(countries)).pprint()

ssc.start()
ssc.awaitTermination()
