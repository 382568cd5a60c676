"""One function on RDDs, in a batch program and in a stream."""

import sys

from headwater.dstream import SparkContext, StreamingContext


def filter_errors(rdd):
    return rdd.filter(lambda line: line.startswith("ERROR"))


if __name__ == "__main__":
    sc = SparkContext("local[2]", "FilterErrors")
    if sys.argv[1:] == ["batch"]:
        print(filter_errors(sc.textFile("logs")).collect())
    else:
        ssc = StreamingContext(sc, 1)
        ssc.textFileStream("logs").transform(filter_errors).pprint()
        ssc.start()
        ssc.awaitTermination()
