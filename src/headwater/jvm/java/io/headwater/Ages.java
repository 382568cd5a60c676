package io.headwater;

import java.io.IOException;
import java.io.ObjectOutputStream;
import java.util.Arrays;
import java.util.StringJoiner;
import org.apache.spark.util.AccumulatorV2;

/**
 * How old rows are, in milliseconds, as a histogram: added to from inside a query's own code, merged
 * by Spark.
 *
 * Every row is counted, so a row costs a shift and an addition. A bucket is at most an eighth as wide
 * as its rows are old.
 */
public final class Ages extends AccumulatorV2<Object, long[]> {
    private static final int EXACT = 16;
    private static final int PARTS = 8;
    private static final int FIRST_POWER = 4;
    private static final int BUCKETS = EXACT + (63 - FIRST_POWER) * PARTS;

    private long[] rows = new long[BUCKETS];
    private long all;
    private transient long[] taken;

    /** Called for every row, by the one thread of its task. */
    public void add(long age) {
        rows[bucket(age)]++;
        all++;
    }

    @Override
    public void add(Object age) {
        add(((Number) age).longValue());
    }

    private static int bucket(long age) {
        if (age < EXACT) {
            return (int) Math.max(0, age);
        }
        int power = 63 - Long.numberOfLeadingZeros(age);
        int part = (int) (age >>> (power - 3)) & (PARTS - 1);
        return EXACT + (power - FIRST_POWER) * PARTS + part;
    }

    /** The lowest age that a bucket does not hold any more. */
    private static long end(int bucket) {
        if (bucket < EXACT) {
            return bucket + 1L;
        }
        int power = (bucket - EXACT) / PARTS + FIRST_POWER;
        long part = (bucket - EXACT) % PARTS;
        return (PARTS + part + 1) << (power - 3);
    }

    @Override
    public boolean isZero() {
        return all == 0;
    }

    @Override
    public synchronized Ages copy() {
        Ages copy = new Ages();
        copy.rows = rows.clone();
        copy.all = all;
        return copy;
    }

    @Override
    public Ages copyAndReset() {
        return new Ages();
    }

    @Override
    public synchronized void reset() {
        Arrays.fill(rows, 0);
        all = 0;
    }

    @Override
    public synchronized void merge(AccumulatorV2<Object, long[]> other) {
        Ages found = (Ages) other;
        for (int i = 0; i < BUCKETS; i++) {
            rows[i] += found.rows[i];
        }
        all += found.all;
    }

    @Override
    public synchronized long[] value() {
        return rows.clone();
    }

    /** What came since this was last asked: `[[end, rows], …]`, the youngest first. */
    public synchronized String take() {
        long[] before = taken == null ? new long[BUCKETS] : taken;
        taken = rows.clone();
        StringJoiner found = new StringJoiner(",", "[", "]");
        for (int i = 0; i < BUCKETS; i++) {
            if (taken[i] != before[i]) {
                found.add("[" + end(i) + "," + (taken[i] - before[i]) + "]");
            }
        }
        return found.toString();
    }

    /** A running task's ages are sent with every heartbeat, while others are added. */
    private synchronized void writeObject(ObjectOutputStream out) throws IOException {
        out.defaultWriteObject();
    }
}
