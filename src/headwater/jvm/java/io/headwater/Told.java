package io.headwater;

import java.io.IOException;
import java.io.ObjectOutputStream;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.TaskContext;
import org.apache.spark.util.AccumulatorV2;

/**
 * Texts that tasks tell their driver, in JSON: as many bytes of a task as there is room for, then
 * one more, which says that there were others.
 */
public final class Told extends AccumulatorV2<Object, List<String>> {
    private final long perTask;
    private final long perStage;
    private ArrayList<String> texts = new ArrayList<>();
    private transient long bytes;
    private transient boolean isFull;

    public Told(long perTask, long perStage) {
        this.perTask = perTask;
        this.perStage = perStage;
    }

    /** Whether the task may tell another row. */
    public boolean hasRoom() {
        TaskContext task = TaskContext.get();
        long share = task == null ? perTask : perStage / Math.max(1, task.numPartitions());
        return bytes < Math.min(perTask, share);
    }

    @Override
    public synchronized void add(Object text) {
        if (isFull) {
            return;
        }
        isFull = !hasRoom();
        String told = text.toString();
        bytes += told.length();
        texts.add(told);
    }

    /** All that tasks have brought since this was last asked, as a JSON array. */
    public synchronized String take() {
        String taken = "[" + String.join(",", texts) + "]";
        texts = new ArrayList<>();
        return taken;
    }

    @Override
    public synchronized boolean isZero() {
        return texts.isEmpty();
    }

    @Override
    public synchronized Told copy() {
        Told copy = copyAndReset();
        copy.texts.addAll(texts);
        return copy;
    }

    @Override
    public Told copyAndReset() {
        return new Told(perTask, perStage);
    }

    @Override
    public synchronized void reset() {
        texts = new ArrayList<>();
        bytes = 0;
        isFull = false;
    }

    @Override
    public synchronized void merge(AccumulatorV2<Object, List<String>> other) {
        texts.addAll(other.value());
    }

    @Override
    public synchronized List<String> value() {
        return new ArrayList<>(texts);
    }

    /** What a running task has told is sent with every heartbeat, while more is added. */
    private synchronized void writeObject(ObjectOutputStream out) throws IOException {
        out.defaultWriteObject();
    }
}
