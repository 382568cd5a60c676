"""Counts the words of a queue of RDDs."""

from headwater.dstream import SparkContext, StreamingContext

sc = SparkContext("local[2]", "QueueWordCount")
ssc = StreamingContext(sc, 1)

queue = [sc.parallelize(["to be or", "not to be"]), sc.parallelize(["that is the question"])]
words = ssc.queueStream(queue).flatMap(lambda line: line.split(" "))
words.map(lambda word: (word, 1)).reduceByKey(lambda a, b: a + b).pprint()

ssc.start()
ssc.awaitTermination()
