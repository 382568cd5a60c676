package io.headwater;

import java.sql.Connection;
import java.sql.SQLException;
import java.util.Iterator;
import org.apache.spark.api.java.function.ForeachPartitionFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.execution.datasources.jdbc.JDBCOptions;
import org.apache.spark.sql.jdbc.JdbcDialects;
import org.postgresql.PGConnection;
import org.postgresql.copy.CopyIn;
import scala.Function1;

/**
 * Loads lines with PostgreSQL's COPY, one per task: what fails half-way leaves nothing.
 *
 * Spark's own factory of connections goes to the tasks. It finds the driver's class wherever the
 * session has it, and what it knows is in no plan.
 */
public final class Copy implements ForeachPartitionFunction<byte[]> {
    private static final long serialVersionUID = 1;
    private static final int BUFFER_BYTES = 1 << 16;
    private final Function1<Object, Connection> connections;
    private final String statement;

    private Copy(Function1<Object, Connection> connections, String statement) {
        this.connections = connections;
        this.statement = statement;
    }

    /** The lines are the only column, as bytes in UTF-8, each with its end. */
    public static void load(Dataset<Row> lines, String statement, JDBCOptions options) {
        Function1<Object, Connection> connections =
                JdbcDialects.get(options.url()).createConnectionFactory(options);
        lines.as(Encoders.BINARY()).foreachPartition(new Copy(connections, statement));
    }

    @Override
    public void call(Iterator<byte[]> lines) throws SQLException {
        if (!lines.hasNext()) {
            return;
        }
        try (Connection connection = connections.apply(-1)) {
            CopyIn copy = connection.unwrap(PGConnection.class).getCopyAPI().copyIn(statement);
            try {
                send(lines, copy);
                copy.endCopy();
            } catch (Throwable failure) {
                cancel(copy, failure);
                throw failure;
            }
        }
    }

    private static void send(Iterator<byte[]> lines, CopyIn copy) throws SQLException {
        byte[] buffer = new byte[BUFFER_BYTES];
        int used = 0;
        while (lines.hasNext()) {
            byte[] line = lines.next();
            if (used + line.length > buffer.length) {
                copy.writeToCopy(buffer, 0, used);
                used = 0;
            }
            if (line.length > buffer.length) {
                copy.writeToCopy(line, 0, line.length);
            } else {
                System.arraycopy(line, 0, buffer, used, line.length);
                used += line.length;
            }
        }
        copy.writeToCopy(buffer, 0, used);
    }

    private static void cancel(CopyIn copy, Throwable failure) {
        try {
            if (copy.isActive()) {
                copy.cancelCopy();
            }
        } catch (SQLException second) {
            failure.addSuppressed(second);
        }
    }
}
