package io.headwater;

import java.util.List;
import java.util.Map;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.delta.DeltaLog;
import org.apache.spark.sql.delta.DeltaOperations;
import org.apache.spark.sql.delta.DeltaOptions;
import org.apache.spark.sql.delta.OptimisticTransaction;
import org.apache.spark.sql.delta.actions.Action;
import org.apache.spark.sql.delta.commands.DMLUtils;
import org.apache.spark.sql.delta.commands.WriteIntoDelta;
import org.apache.spark.sql.internal.SQLConf;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Delta's own append under a transaction identifier, for one who knows that this version is not
 * there yet: Delta would read its whole log in a job of its own to find that out.
 */
public final class Append {
    private Append() {}

    /** Whether it was done; not where the session has another Delta than the one we know. */
    public static boolean append(
            Dataset<Row> rows, String path, String application, long version, SQLConf conf) {
        SparkSession session = rows.sparkSession();
        try {
            Map<String, String> options =
                    Map.of(
                            "path", path,
                            "mergeSchema", "true",
                            "txnAppId", application,
                            "txnVersion", Long.toString(version));
            DeltaLog log = DeltaLog.forTable(session, path);
            OptimisticTransaction transaction = log.startTransaction(Option.empty(), Option.empty());
            // A commit of the same application from elsewhere is a conflict.
            transaction.readTxn().$plus$eq(application);
            WriteIntoDelta write = appending(log, rows, new DeltaOptions(scala(options), conf));
            DMLUtils.TaggedCommitData<Action> written =
                    write.writeAndReturnCommitData(transaction, session, Option.empty(), false);
            transaction.commit(written.actions(), operation(), written.stringTags());
            return true;
        } catch (LinkageError other) {
            return false;
        }
    }

    private static WriteIntoDelta appending(DeltaLog log, Dataset<Row> rows, DeltaOptions options) {
        return new WriteIntoDelta(
                log,
                SaveMode.Append,
                options,
                nothing(),
                scala(Map.of()),
                rows,
                Option.empty(),
                Option.empty(),
                false);
    }

    private static DeltaOperations.Operation operation() {
        return new DeltaOperations.Write(
                SaveMode.Append,
                Option.apply(nothing()),
                Option.empty(),
                Option.empty(),
                Option.empty(),
                Option.empty(),
                Option.apply(true),
                Option.empty(),
                Option.empty());
    }

    private static Seq<String> nothing() {
        return CollectionConverters.asScala(List.<String>of()).toSeq();
    }

    private static scala.collection.immutable.Map<String, String> scala(Map<String, String> map) {
        return scala.collection.immutable.Map.from(CollectionConverters.asScala(map));
    }
}
