"""Counts the words of new files in a folder."""

from headwater.dstream import SparkContext, StreamingContext

sc = SparkContext("local[2]", "HdfsWordCount")
ssc = StreamingContext(sc, 1)

lines = ssc.textFileStream("books")
counts = (
    lines.flatMap(lambda line: line.split(" "))
    .map(lambda word: (word, 1))
    .reduceByKey(lambda a, b: a + b)
)
counts.pprint()

ssc.start()
ssc.awaitTermination()
