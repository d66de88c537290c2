// A member of a group with Kafka's own client: reads until its stdin ends, prints what its callbacks got as JSON lines.
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Properties;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;

public class Member {
    static void say(String event, Collection<TopicPartition> partitions) {
        String shown = partitions.stream().map(p -> "[\"" + p.topic() + "\", " + p.partition() + "]")
            .collect(Collectors.joining(", "));
        System.out.println("{\"event\": \"" + event + "\", \"partitions\": [" + shown + "]}");
        System.out.flush();
    }

    public static void main(String[] given) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", given[0]);
        settings.put("group.id", given[1]);
        settings.put("client.id", given[3]);
        settings.put("group.protocol", "consumer");
        settings.put("auto.offset.reset", "earliest");
        settings.put("auto.commit.interval.ms", "500");
        settings.put("metadata.max.age.ms", "3000");
        String text = "org.apache.kafka.common.serialization.StringDeserializer";
        settings.put("key.deserializer", text);
        settings.put("value.deserializer", text);
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings)) {
            consumer.subscribe(List.of(given[2]), new ConsumerRebalanceListener() {
                public void onPartitionsAssigned(Collection<TopicPartition> partitions) { say("assigned", partitions); }
                public void onPartitionsRevoked(Collection<TopicPartition> partitions) { say("revoked", partitions); }
                public void onPartitionsLost(Collection<TopicPartition> partitions) { say("lost", partitions); }
            });
            while (System.in.available() == 0) {
                consumer.poll(Duration.ofMillis(100));
            }
        }
        System.out.println("{\"event\": \"closed\"}");
    }
}
