"""A Kafka topic joined with a static RDD, in foreachRDD."""

import os

from headwater.dstream import KafkaUtils, SparkContext, StreamingContext

sc = SparkContext("local[2]", "KafkaStaticJoin")
ssc = StreamingContext(sc, 1)

names = sc.parallelize([("7", "Ada"), ("8", "Grace")]).cache()
brokers = os.environ["BROKERS"]
orders = KafkaUtils.createDirectStream(
    ssc, ["orders"], {"metadata.broker.list": brokers, "auto.offset.reset": "smallest"}
)


def show(time, rdd):
    for customer, (item, name) in sorted(rdd.join(names).collect()):
        print(f"{name} ({customer}) ordered {item}", flush=True)


orders.foreachRDD(show)

ssc.start()
ssc.awaitTermination()
