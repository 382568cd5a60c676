"""Counts the words of each second, from a socket."""

from headwater.dstream import SparkContext, StreamingContext

sc = SparkContext("local[2]", "NetworkWordCount")
ssc = StreamingContext(sc, 1)

lines = ssc.socketTextStream("localhost", 9999)
counts = (
    lines.flatMap(lambda line: line.split(" "))
    .map(lambda word: (word, 1))
    .reduceByKey(lambda a, b: a + b)
)
counts.pprint()

ssc.start()
ssc.awaitTermination()
