package io.headwater;

import java.io.IOException;
import java.io.ObjectOutputStream;
import org.apache.datasketches.kll.KllLongsSketch;
import org.apache.datasketches.memory.Memory;
import org.apache.spark.util.AccumulatorV2;

/**
 * How far rows are behind, as a sketch: added to from inside a query's own code, merged by Spark.
 *
 * Spark's `observe` would do the same between two operators, where every row is taken out of the
 * compiled code and put back. Most rows are not behind at all: those are only counted.
 */
public final class Lags extends AccumulatorV2<Object, byte[]> {
    private transient KllLongsSketch behind;
    private byte[] packed;
    private long inOrder;
    private long outOfOrder;

    /** Called for every row, so without a lock; only the sketch needs one. */
    public void add(long lag) {
        if (lag <= 0) {
            inOrder++;
        } else {
            draw(lag);
        }
    }

    private synchronized void draw(long lag) {
        outOfOrder++;
        sketch().update(lag);
    }

    @Override
    public void add(Object lag) {
        add(((Number) lag).longValue());
    }

    @Override
    public boolean isZero() {
        return inOrder == 0 && outOfOrder == 0;
    }

    @Override
    public synchronized Lags copy() {
        Lags copy = new Lags();
        copy.inOrder = inOrder;
        copy.outOfOrder = outOfOrder;
        copy.packed = packed();
        return copy;
    }

    @Override
    public synchronized void reset() {
        inOrder = 0;
        outOfOrder = 0;
        packed = null;
        behind = null;
    }

    @Override
    public synchronized void merge(AccumulatorV2<Object, byte[]> other) {
        Lags found = ((Lags) other).copy();
        inOrder += found.inOrder;
        outOfOrder += found.outOfOrder;
        if (found.packed != null) {
            sketch().merge(found.sketch());
        }
    }

    /** The sketch of all lags, in DataSketches' own form. */
    @Override
    public synchronized byte[] value() {
        KllLongsSketch all = KllLongsSketch.newHeapInstance();
        if (inOrder > 0) {
            all.update(0L, inOrder);
        }
        byte[] rest = packed();
        if (rest != null) {
            all.merge(KllLongsSketch.heapify(Memory.wrap(rest)));
        }
        return all.toByteArray();
    }

    private KllLongsSketch sketch() {
        if (behind == null) {
            behind = packed == null
                ? KllLongsSketch.newHeapInstance()
                : KllLongsSketch.heapify(Memory.wrap(packed));
            packed = null;
        }
        return behind;
    }

    private byte[] packed() {
        return behind == null ? packed : behind.toByteArray();
    }

    /** A running task's lags are sent with every heartbeat, while others are added. */
    private synchronized void writeObject(ObjectOutputStream out) throws IOException {
        packed = packed();
        behind = null;
        out.defaultWriteObject();
    }
}
