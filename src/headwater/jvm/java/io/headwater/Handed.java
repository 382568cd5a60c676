package io.headwater;

import java.io.IOException;
import java.io.ObjectOutputStream;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.TaskContext;
import org.apache.spark.util.AccumulatorV2;

/**
 * How many rows the tasks of a batch handed to the sink.
 *
 * A sink may run a batch several times, a merge for example: per partition the longest run counts.
 */
public final class Handed extends AccumulatorV2<Object, Long> {
    private static final String BATCH = "streaming.sql.batchId";

    private long rows;
    private long batch = -1;
    private long partition;
    private final TreeMap<Long, Map<Long, Long>> merged = new TreeMap<>();

    /** Called for every row, by the one thread of its task. */
    public void add(long partition) {
        if (rows++ == 0) {
            this.partition = partition;
            TaskContext task = TaskContext.get();
            String found = task == null ? null : task.getLocalProperty(BATCH);
            batch = found == null ? -1 : Long.parseLong(found);
        }
    }

    @Override
    public void add(Object partition) {
        add(((Number) partition).longValue());
    }

    @Override
    public boolean isZero() {
        return rows == 0;
    }

    @Override
    public synchronized Handed copy() {
        Handed copy = new Handed();
        copy.rows = rows;
        copy.batch = batch;
        copy.partition = partition;
        merged.forEach((batch, found) -> copy.merged.put(batch, new HashMap<>(found)));
        return copy;
    }

    @Override
    public Handed copyAndReset() {
        return new Handed();
    }

    @Override
    public synchronized void reset() {
        rows = 0;
        batch = -1;
        merged.clear();
    }

    @Override
    public synchronized void merge(AccumulatorV2<Object, Long> other) {
        Handed found = (Handed) other;
        rows += found.rows;
        merged.computeIfAbsent(found.batch, batch -> new HashMap<>())
            .merge(found.partition, found.rows, Math::max);
    }

    @Override
    public synchronized Long value() {
        return rows;
    }

    /**
     * The rows of a batch that has ended; it and those before it are forgotten. Jobs of threads that
     * a user's function started do not know their batch: theirs are counted with it.
     */
    public synchronized long take(long batch) {
        long found = sum(batch) + sum(-1);
        merged.headMap(batch, true).clear();
        return found;
    }

    private long sum(long batch) {
        Map<Long, Long> found = merged.getOrDefault(batch, Map.of());
        return found.values().stream().mapToLong(Long::longValue).sum();
    }

    /** A running task's rows are sent with every heartbeat, while others are added. */
    private synchronized void writeObject(ObjectOutputStream out) throws IOException {
        out.defaultWriteObject();
    }
}
