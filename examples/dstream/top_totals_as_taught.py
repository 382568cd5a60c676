"""The three busiest addresses with their running total, as it is usually taught.

The total adds the counts of windows. A window of 30 seconds slides every 10, so each request is in
three windows and is counted three times. See top_totals.py.
"""

from headwater.dstream import SparkContext, StreamingContext

sc = SparkContext("local[2]", "TopTotalsAsTaught")
ssc = StreamingContext(sc, 10)
ssc.checkpoint("checkpoint/top_totals_as_taught")

lines = ssc.socketTextStream("localhost", 9999)
ips = lines.map(lambda line: (line.split(" ")[1], 1))
counts = ips.reduceByKeyAndWindow(lambda a, b: a + b, lambda a, b: a - b, 30, 10)
totals = counts.updateStateByKey(lambda new, total: (total or 0) + sum(new))


def top_three(rdd):
    ranked = rdd.sortBy(lambda pair: (-pair[1], pair[0]))
    return ranked.zipWithIndex().filter(lambda pair: pair[1] < 3).keys()


counts.transform(top_three).join(totals).pprint()

ssc.start()
ssc.awaitTermination()
