package io.headwater;

import java.util.List;
import java.util.Set;
import java.util.function.LongSupplier;
import java.util.stream.Stream;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.CatalogV2Util;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.execution.datasources.v2.parquet.ParquetTable;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The files of one version out of a Delta table of many: of the one that is said when a batch is
 * planned.
 *
 * Delta would read its log and search it for the files of that version, for every batch. What is
 * stored of a version never changes, so its files are looked up once. They may hold other rows, too.
 */
public final class Versions implements SupportsRead {
    private final SparkSession spark;
    private final String place;
    private final String column;
    private final StructType schema;
    private final LongSupplier version;
    private volatile Known known = new Known(-1, null);

    /** What a version is read from; null where it holds nothing. */
    private record Known(long version, SupportsRead files) {}

    /** `column` tells the versions at `place` apart; `version` says which one a batch takes. */
    public Versions(SparkSession spark, String place, String column, LongSupplier version) {
        this.spark = spark;
        this.place = place;
        this.column = column;
        this.schema = spark.read().format("delta").load(place).schema();
        this.version = version;
    }

    @Override
    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
        long wanted = version.getAsLong();
        Known found = known;
        if (found.version() != wanted) {
            found = new Known(wanted, filesOf(wanted));
            known = found;
        }
        SupportsRead files = found.files();
        return files == null ? () -> new Nothing(schema) : files.newScanBuilder(options);
    }

    private SupportsRead filesOf(long wanted) {
        var rows = spark.read().format("delta").load(place);
        var files = rows.where(functions.col(column).equalTo(wanted)).inputFiles();
        if (files.length == 0) {
            return null;
        }
        // Without patterns (__globPaths__) Spark would read a path twice that looks like one.
        List<String> exact =
                Stream.of(files).map(f -> f.replaceAll("[*?{}\\[\\]]", "\\\\$0")).toList();
        var paths = CollectionConverters.asScala(exact).toSeq();
        var options = CaseInsensitiveStringMap.empty();
        var columns = Option.apply(schema);
        return new ParquetTable(name(), spark, options, paths, columns, ParquetFileFormat.class);
    }

    @Override
    public String name() {
        return "versions of " + place;
    }

    @Override
    public Column[] columns() {
        return CatalogV2Util.structTypeToV2Columns(schema, false);
    }

    @Override
    public Set<TableCapability> capabilities() {
        return Set.of(TableCapability.BATCH_READ);
    }

    private record Nothing(StructType readSchema) implements LocalScan {
        @Override
        public InternalRow[] rows() {
            return new InternalRow[0];
        }
    }
}
