"""Impressions joined with the visits of the same second, both from Kafka."""

import os

from headwater.dstream import KafkaUtils, SparkContext, StreamingContext

sc = SparkContext("local[2]", "ImpressionsVisits")
ssc = StreamingContext(sc, 1)

kafka = {"bootstrap.servers": os.environ["BROKERS"], "auto.offset.reset": "earliest"}
impressions = KafkaUtils.createDirectStream(ssc, ["impressions"], kafka)
visits = KafkaUtils.createDirectStream(ssc, ["visits"], kafka)
impressions.join(visits).pprint()

ssc.start()
ssc.awaitTermination()
