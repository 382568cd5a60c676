"""The three busiest addresses of the last 30 seconds, every 10 seconds."""

from headwater.dstream import SparkContext, StreamingContext

sc = SparkContext("local[2]", "TopIps")
ssc = StreamingContext(sc, 10)
ssc.checkpoint("checkpoint/top_ips")

lines = ssc.socketTextStream("localhost", 9999)
ips = lines.map(lambda line: (line.split(" ")[1], 1))
counts = ips.reduceByKeyAndWindow(lambda a, b: a + b, lambda a, b: a - b, 30, 10)


def top_three(rdd):
    ranked = rdd.sortBy(lambda pair: (-pair[1], pair[0]))
    return ranked.zipWithIndex().filter(lambda pair: pair[1] < 3).keys()


counts.transform(top_three).pprint()

ssc.start()
ssc.awaitTermination()
