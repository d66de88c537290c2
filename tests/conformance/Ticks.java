import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;

/** A connector of one task, which prints the time in milliseconds, again and again, as long as it runs. */
public class Ticks extends SourceConnector {
    static final int EVERY_MS = 100;

    @Override public void start(Map<String, String> given) { }

    @Override public void stop() { }

    @Override public String version() {
        return "1";
    }

    @Override public ConfigDef config() {
        return new ConfigDef();
    }

    @Override public Class<? extends Task> taskClass() {
        return Ticking.class;
    }

    @Override public List<Map<String, String>> taskConfigs(int most) {
        return List.of(Map.of());
    }

    public static class Ticking extends SourceTask {
        @Override public void start(Map<String, String> given) { }

        @Override public void stop() { }

        @Override public String version() {
            return "1";
        }

        @Override public List<SourceRecord> poll() throws InterruptedException {
            System.out.println("tick " + System.currentTimeMillis());
            Thread.sleep(EVERY_MS);
            return null;
        }
    }
}
