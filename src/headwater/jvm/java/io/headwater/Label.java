package io.headwater;

import java.util.HexFormat;
import java.util.Map;
import org.apache.kafka.clients.producer.ProducerInterceptor;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.spark.TaskContext;

/**
 * Gives every record that a task sends the header of its batch, which the job names in a property.
 *
 * As a column of Spark's sink the same header would be made, copied and taken apart for every row.
 * A task that is tried again fails at its first record: what an earlier attempt sent is in the topic
 * and has to be read back first.
 */
public final class Label implements ProducerInterceptor<byte[], byte[]> {
    static final String PROPERTY = "headwater.kafka.label";
    private static final String HEADER = "hw";
    private static final String TRIED_AGAIN = "a task of headwater was tried again";
    private static final ThreadLocal<Known> LAST = ThreadLocal.withInitial(Known::new);

    /** Kafka catches the exceptions of its interceptors and goes on; an error ends the task. */
    private static final class TriedAgain extends Error {
        TriedAgain() {
            super(TRIED_AGAIN);
        }
    }

    /** Whether a job failed for that; what a task threw comes as text inside Spark's exceptions. */
    static boolean wasTriedAgain(Throwable failure) {
        for (Throwable cause = failure; cause != null; cause = cause.getCause()) {
            if (String.valueOf(cause.getMessage()).contains(TRIED_AGAIN)) {
                return true;
            }
        }
        return false;
    }

    /** What the task of this thread says; a thread runs one task after the other. */
    private static final class Known {
        private TaskContext task;
        private RecordHeader header;
        private boolean isTriedAgain;
    }

    @Override
    public ProducerRecord<byte[], byte[]> onSend(ProducerRecord<byte[], byte[]> record) {
        TaskContext task = TaskContext.get();
        if (task == null) {
            return record;
        }
        Known known = LAST.get();
        if (known.task != task) {
            String label = task.getLocalProperty(PROPERTY);
            known.task = task;
            known.header =
                label == null ? null : new RecordHeader(HEADER, HexFormat.of().parseHex(label));
            known.isTriedAgain = task.attemptNumber() > 0 || task.stageAttemptNumber() > 0;
        }
        if (known.header != null) {
            if (known.isTriedAgain) {
                throw new TriedAgain();
            }
            record.headers().add(known.header);
        }
        return record;
    }

    @Override
    public void onAcknowledgement(RecordMetadata metadata, Exception exception) {}

    @Override
    public void close() {}

    @Override
    public void configure(Map<String, ?> settings) {}
}
