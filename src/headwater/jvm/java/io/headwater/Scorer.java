package io.headwater;

import java.io.Serializable;
import java.util.ArrayDeque;
import java.util.Deque;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BasePredicate;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.Nondeterministic;
import org.apache.spark.sql.catalyst.expressions.Predicate;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LeafNode;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.util.Utils;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * What a plan of projections and filters does to one row: none or one row comes out.
 *
 * A query's plan is fixed when it starts. This is a plan inside an object, of which the query takes
 * a handle anew for every batch: constants of a batch may be bytes, but no objects.
 */
public final class Scorer implements Serializable {
    private static final long serialVersionUID = 1L;
    private static final ThreadLocal<Known> LAST = ThreadLocal.withInitial(Known::new);

    /** The scorer that this thread was last asked for; within a task that is always the same. */
    private static final class Known {
        private byte[] handle;
        private Scorer scorer;
    }

    /** A scorer that every executor fetches once; it is there as long as this object. */
    public static final class Sent {
        private final Broadcast<Scorer> broadcast;

        private Sent(Broadcast<Scorer> broadcast) {
            this.broadcast = broadcast;
        }

        public byte[] handle() {
            return Utils.serialize(broadcast);
        }
    }

    public Sent send(JavaSparkContext context) {
        return new Sent(context.broadcast(this));
    }

    public static ArrayData score(byte[] handle, InternalRow row) {
        Known known = LAST.get();
        if (known.handle != handle) {
            ClassLoader loader = Utils.getContextOrSparkClassLoader();
            Broadcast<Scorer> sent = Utils.deserialize(handle, loader);
            known.scorer = sent.value();
            known.handle = handle;
        }
        return known.scorer.score(row);
    }

    private final String name;
    private final int width;
    private final Step[] steps;
    private transient volatile ThreadLocal<Deque<Compiled>> compiled;

    private Scorer(String name, int width, Step[] steps) {
        this.name = name;
        this.width = width;
        this.steps = steps;
    }

    /** A row of nulls for every row. */
    public static Scorer ofNothing(int width) {
        return new Scorer("no version", width, null);
    }

    /** Throws IllegalArgumentException with the name of what is not done row by row. */
    public static Scorer of(LogicalPlan plan, String name) {
        Deque<Step> steps = new ArrayDeque<>();
        LogicalPlan at = plan;
        while (!(at instanceof LeafNode)) {
            LogicalPlan child = at.children().head();
            if (at instanceof Project project) {
                steps.addFirst(new Step(expressions(project.projectList()), null, child.output()));
            } else if (at instanceof Filter filter) {
                steps.addFirst(new Step(null, filter.condition(), child.output()));
            } else {
                throw new IllegalArgumentException(at.nodeName());
            }
            for (Expression one : CollectionConverters.asJava(at.expressions())) {
                // A VectorAssembler calls itself nondeterministic so that Spark runs it once only.
                if (one.exists(part -> part instanceof Nondeterministic)) {
                    throw new IllegalArgumentException(one.sql());
                }
            }
            at = child;
        }
        return new Scorer(name, plan.output().size(), steps.toArray(new Step[0]));
    }

    public ArrayData score(InternalRow row) {
        if (steps == null) {
            return new GenericArrayData(new Object[] {new GenericInternalRow(width)});
        }
        InternalRow now = row;
        for (Compiled step : compiled()) {
            if (step.filter != null) {
                if (!step.filter.eval(now)) {
                    return new GenericArrayData(new Object[0]);
                }
            } else {
                now = step.projection.apply(now);
            }
        }
        return new GenericArrayData(new Object[] {now.copy()});
    }

    @Override
    public String toString() {
        return name;
    }

    private Deque<Compiled> compiled() {
        if (compiled == null) {
            compiled = ThreadLocal.withInitial(this::compile);
        }
        return compiled.get();
    }

    private Deque<Compiled> compile() {
        Deque<Compiled> made = new ArrayDeque<>();
        for (Step step : steps) {
            made.addLast(new Compiled(step));
        }
        return made;
    }

    /** Every named expression is one; Java's compiler is not told. */
    @SuppressWarnings("unchecked")
    private static Seq<Expression> expressions(Seq<NamedExpression> named) {
        return (Seq<Expression>) (Seq<?>) named;
    }

    private record Step(Seq<Expression> columns, Expression condition, Seq<Attribute> input)
            implements Serializable {}

    private static final class Compiled {
        private final UnsafeProjection projection;
        private final BasePredicate filter;

        Compiled(Step step) {
            if (step.condition == null) {
                projection = UnsafeProjection.create(step.columns, step.input);
                filter = null;
            } else {
                projection = null;
                filter = Predicate.create(step.condition, step.input);
                filter.initialize(0);
            }
        }
    }
}
