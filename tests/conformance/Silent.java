import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/** A member that falls silent once it is assigned partitions. Arguments: bootstrap, group, topic, max.poll.interval.ms,
 *  and `polls` or `unsubscribes`: it polls no more, or unsubscribes and never returns from its callback. */
public class Silent {
    public static void main(String[] given) throws Exception {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", given[0], "group.id", given[1], "group.protocol", "consumer",
            "max.poll.interval.ms", given[3], "client.id", given[4]);
        var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(List.of(given[2]), new ConsumerRebalanceListener() {
            public void onPartitionsAssigned(Collection<TopicPartition> partitions) { }

            public void onPartitionsRevoked(Collection<TopicPartition> partitions) { fallSilent(); }
        });
        while (consumer.assignment().isEmpty()) {
            consumer.poll(Duration.ofMillis(100));
        }
        if (given[4].equals("unsubscribes")) {
            consumer.unsubscribe();
        }
        fallSilent();
    }

    static void fallSilent() {
        System.out.println("silent");
        System.out.flush();
        while (true) {
            try {
                Thread.sleep(Long.MAX_VALUE);
            } catch (InterruptedException e) { }
        }
    }
}
