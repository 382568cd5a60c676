package io.headwater;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Function;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.execution.streaming.Sink;
import org.apache.spark.sql.execution.streaming.sources.ForeachBatchSink;
import org.apache.spark.sql.execution.streaming.sources.PythonForeachBatchFunction;
import org.apache.spark.sql.kafka010.KafkaSourceProvider;
import org.apache.spark.sql.sources.StreamSinkProvider;
import org.apache.spark.sql.streaming.OutputMode;
import scala.collection.immutable.Seq;
import scala.runtime.BoxedUnit;

/**
 * Spark's own Kafka sink for batches that are new, a function for those that come again.
 *
 * A new batch is written by the plan of its stream. Handed to a function first, as `foreachBatch`
 * does, every batch would be planned once more and every row copied.
 */
public final class OnceSink implements StreamSinkProvider {
    private static final String WHO = "headwater.once";
    private static final Map<String, Ledger> LEDGERS = new ConcurrentHashMap<>();

    /** `label` gives the label of a new batch and null for one that comes again. */
    private record Ledger(Function<Long, String> label, PythonForeachBatchFunction again) {}

    /** Called before the query starts, whose option `headwater.once` has this `name`. */
    public static void prepare(
            String name, Function<Long, String> label, PythonForeachBatchFunction again) {
        LEDGERS.put(name, new Ledger(label, again));
    }

    @Override
    public Sink createSink(
            SQLContext context,
            scala.collection.immutable.Map<String, String> options,
            Seq<String> partitions,
            OutputMode mode) {
        Ledger ledger = LEDGERS.remove(options.apply(WHO));
        Sink kafka = new KafkaSourceProvider().createSink(context, options, partitions, mode);
        return new Once(kafka, ledger);
    }

    /** Spark, in Scala, throws checked exceptions that its methods do not declare. */
    @SuppressWarnings("unchecked")
    private static <E extends Exception> void raise(Exception failure) throws E {
        throw (E) failure;
    }

    private static final class Once implements Sink {
        private final Sink kafka;
        private final Ledger ledger;

        Once(Sink kafka, Ledger ledger) {
            this.kafka = kafka;
            this.ledger = ledger;
        }

        @Override
        public void addBatch(long batch, Dataset<Row> rows) {
            String label = ledger.label().apply(batch);
            if (label == null || !isWritten(batch, rows, label)) {
                again(batch, rows);
            }
        }

        /** Whether all went well; a task that is tried again leaves the batch half written. */
        private boolean isWritten(long batch, Dataset<Row> rows, String label) {
            SparkContext spark = rows.sparkSession().sparkContext();
            spark.setLocalProperty(Label.PROPERTY, label);
            try {
                kafka.addBatch(batch, rows);
                return true;
            } catch (Exception failure) {
                if (!Label.wasTriedAgain(failure)) {
                    OnceSink.<RuntimeException>raise(failure);
                }
                return false;
            } finally {
                spark.setLocalProperty(Label.PROPERTY, null);
            }
        }

        private void again(long batch, Dataset<Row> rows) {
            var encoder = ((org.apache.spark.sql.classic.Dataset<Row>) rows).exprEnc();
            new ForeachBatchSink<Row>(
                    (batchRows, id) -> {
                        ledger.again().call(batchRows, batch);
                        return BoxedUnit.UNIT;
                    },
                    encoder)
                .addBatch(batch, rows);
        }

        @Override
        public String toString() {
            return kafka.toString();
        }
    }
}
