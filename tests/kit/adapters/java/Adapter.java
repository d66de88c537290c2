// The adapter of Kafka's own Java client.
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

public class Adapter {
    private static final Map<String, String> OPTIONS = new HashMap<>();

    private static String option(String name, String otherwise) {
        return OPTIONS.getOrDefault(name, otherwise);
    }

    private static synchronized void say(String event, String more) {
        System.out.println("{\"ev\": \"" + event + "\"" + more + "}");
        System.out.flush();
    }

    private static String list(Collection<TopicPartition> partitions) {
        return ", \"partitions\": " + partitions.stream()
            .map(one -> "[\"" + one.topic() + "\", " + one.partition() + "]").sorted().collect(Collectors.toList());
    }

    private static void fail(Exception problem) {
        String text = String.valueOf(problem).replace("\\", "\\\\").replace("\"", "'").replaceAll("\\p{Cntrl}", " ");
        say("error", ", \"error\": \"" + text + "\"");
    }

    private static void sleep(String name) {
        try {
            Thread.sleep(Long.parseLong(option(name, "0")));
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private static class Listener implements ConsumerRebalanceListener {
        @Override public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            say("assign", list(partitions));
            sleep("assign-delay-ms");
            say("assigned", list(partitions));
        }

        @Override public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            say("revoke", list(partitions));
            sleep("revoke-delay-ms");
            say("revoked", list(partitions));
        }

        @Override public void onPartitionsLost(Collection<TopicPartition> partitions) {
            say("lost", list(partitions));
        }
    }

    private static Properties settings(boolean classic) {
        Properties set = new Properties();
        set.put("bootstrap.servers", option("bootstrap", ""));
        set.put("group.id", option("group", "g1"));
        set.put("auto.offset.reset", "earliest");
        set.put("auto.commit.interval.ms", "1000");
        set.put("max.poll.interval.ms", option("max-poll-ms", "300000"));
        set.put("metadata.max.age.ms", "3000");
        set.put("request.timeout.ms", "4000");
        set.put("default.api.timeout.ms", "8000");
        set.put("key.deserializer", ByteArrayDeserializer.class.getName());
        set.put("value.deserializer", ByteArrayDeserializer.class.getName());
        if (!option("instance", "").isEmpty()) set.put("group.instance.id", option("instance", ""));
        if (classic) {
            boolean cooperates = option("assignor", "").contains("cooperative");
            set.put("session.timeout.ms", option("session-ms", "45000"));
            set.put("heartbeat.interval.ms", "1000");
            set.put("partition.assignment.strategy",
                (cooperates ? CooperativeStickyAssignor.class : RangeAssignor.class).getName());
        } else {
            set.put("group.protocol", "consumer");
            if (!option("assignor", "").isEmpty()) set.put("group.remote.assignor", option("assignor", ""));
        }
        return set;
    }

    private static void subscribe(KafkaConsumer<byte[], byte[]> consumer, String topics) {
        if (topics.startsWith("^")) consumer.subscribe(new SubscriptionPattern(topics.substring(1).replace("$", "")), new Listener());
        else consumer.subscribe(Arrays.asList(topics.split(",")), new Listener());
    }

    public static void main(String[] given) {
        for (int i = 0; i + 1 < given.length; i += 2) OPTIONS.put(given[i].substring(2), given[i + 1]);
        boolean classic = option("protocol", "classic").equals("classic");
        BlockingQueue<String> told = new LinkedBlockingQueue<>();
        Thread listening = new Thread(() -> {
            try (BufferedReader lines = new BufferedReader(new InputStreamReader(System.in))) {
                for (String line = lines.readLine(); line != null; line = lines.readLine()) told.add(line.trim());
            } catch (IOException problem) {
                fail(problem);
            }
            told.add("close");
        });
        listening.setDaemon(true);
        listening.start();
        boolean paused = false;
        boolean going = true;
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings(classic));
        try {
            subscribe(consumer, option("topics", "foo"));
        } catch (Exception problem) {
            fail(problem);
        }
        while (going) {
            try {
                String line = told.poll();
                if (line != null) {
                    String[] words = line.split(" ", 2);
                    switch (words[0]) {
                        case "close": going = false; break;
                        case "pause": paused = true; break;
                        case "resume": paused = false; break;
                        case "subscribe": subscribe(consumer, words[1]); break;
                        case "unsubscribe": consumer.unsubscribe(); break;
                        case "commit": consumer.commitSync(Duration.ofSeconds(3)); break;
                        default: break;
                    }
                } else if (paused || consumer.subscription().isEmpty() && !option("topics", "").startsWith("^")) {
                    Thread.sleep(50);
                } else {
                    consumer.poll(Duration.ofMillis(100));
                }
            } catch (Exception problem) {
                fail(problem);
                going = going && !classic;
            }
        }
        try {
            consumer.close();
        } catch (Exception problem) {
            fail(problem);
        }
        say("close_end", "");
        System.exit(0);
    }
}
