"""The three busiest addresses with their running total: every request counts once."""

from headwater.dstream import SparkContext, StreamingContext

sc = SparkContext("local[2]", "TopTotals")
ssc = StreamingContext(sc, 10)
ssc.checkpoint("checkpoint/top_totals")

lines = ssc.socketTextStream("localhost", 9999)
ips = lines.map(lambda line: (line.split(" ")[1], 1))
counts = ips.reduceByKeyAndWindow(lambda a, b: a + b, lambda a, b: a - b, 30, 10)
totals = ips.updateStateByKey(lambda new, total: (total or 0) + sum(new))


def top_three(rdd):
    ranked = rdd.sortBy(lambda pair: (-pair[1], pair[0]))
    return ranked.zipWithIndex().filter(lambda pair: pair[1] < 3).keys()


counts.transform(top_three).join(totals).pprint()

ssc.start()
ssc.awaitTermination()
