import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Members of one group that print what their applications see. Arguments: bootstrap, group, topic, and a scene.
 *  `returns`, `wakes`, `interrupts`: an eager group, a topic of four partitions. A leads, C works between its polls,
 *  and B joins and closes. As B joins, C commits in its revoked callback and does there what the scene is called; only
 *  in `interrupts` members commit automatically.
 *  `recreated`: a group of KIP-848, a topic of two. It is deleted and made anew as A owns both; then B joins.
 *  `grows`: a classic group, a topic of one. A is static and closes; the topic grows, A returns, and then B joins.
 *  `resubscribes`: a classic group that reads another topic, of three. A and B are static; B and then A, which leads,
 *  close and return with a subscription to the topic, too; then D joins. */
public class Members {
    static final int WORK_MS = 1_000, WITH_B_MS = 6_000, AFTER_B_MS = 4_000;
    static String bootstrap, group, topic, scene;
    static volatile int partitions;
    /** Which topic a record is written to; none while it is null. */
    static volatile String value = "first";

    static class Member extends Thread implements ConsumerRebalanceListener {
        final String who;
        final List<String> topics;
        final KafkaConsumer<String, String> consumer;
        final CountDownLatch assigned = new CountDownLatch(1);
        volatile boolean disturbed, closes;

        Member(String who, String... topics) {
            this.who = who;
            this.topics = List.of(topics);
            var settings = new HashMap<String, Object>(Map.of("bootstrap.servers", bootstrap, "group.id", group,
                "client.id", who, "auto.offset.reset", "earliest", "metadata.max.age.ms", "500"));
            settings.putAll(scene.equals("recreated") ? Map.of("group.protocol", "consumer") : Map.of(
                "partition.assignment.strategy", RangeAssignor.class.getName(), "heartbeat.interval.ms", "300",
                "session.timeout.ms", "30000", "enable.auto.commit", scene.equals("interrupts")));
            if (scene.equals("grows") && who.equals("A") || scene.equals("resubscribes") && !who.equals("D")) {
                settings.put("group.instance.id", who);
            }
            consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
            start();
        }

        @Override public void run() {
            consumer.subscribe(topics, this);
            while (!closes) {
                try {
                    var records = consumer.poll(Duration.ofMillis(100));
                    for (TopicPartition one : records.partitions()) {
                        for (var record : records.records(one)) {
                            say("read", List.of(one), record.value() + " " + record.offset());
                        }
                    }
                    if (who.equals("C")) {
                        Thread.sleep(WORK_MS);
                    }
                } catch (WakeupException | InterruptException | InterruptedException e) {
                    Thread.interrupted();
                    say("thrown", List.of(), "");
                }
            }
            say("close", List.of(), "");
            consumer.close();
            say("closed", List.of(), "");
        }

        @Override public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            say("assign", partitions, "");
            if (!partitions.isEmpty()) {
                assigned.countDown();
            }
        }

        @Override public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            say("revoke", partitions, "");
            if (!scene.equals("recreated")) {
                consumer.commitSync();
                disturb();
            }
            say("revoke_done", partitions, "");
        }

        void disturb() {
            if (disturbed) {
                disturbed = false;
                if (scene.equals("wakes")) {
                    consumer.wakeup();
                } else if (scene.equals("interrupts")) {
                    interrupt();
                }
                consumer.commitSync();
            }
        }

        void say(String what, Collection<TopicPartition> partitions, String record) {
            var numbers = partitions.stream().map(TopicPartition::partition).sorted().toList();
            System.out.printf("{\"ts\": %.3f, \"who\": \"%s\", \"ev\": \"%s\", \"parts\": %s, \"record\": \"%s\"}%n",
                System.currentTimeMillis() / 1e3, who, what, numbers, record);
        }

        void close() throws InterruptedException {
            closes = true;
            join();
        }
    }

    public static void main(String[] given) throws Exception {
        bootstrap = given[0];
        group = given[1];
        topic = given[2];
        scene = given[3];
        partitions = Map.of("recreated", 2, "grows", 1, "resubscribes", 1).getOrDefault(scene, 4);
        var producer = new Thread(Members::produce);
        producer.setDaemon(true);
        producer.start();
        var resubscribes = scene.equals("resubscribes");
        var other = topic + "-other";
        var first = new Member("A", resubscribes ? other : topic);
        first.assigned.await();
        var woken = first;
        if (scene.equals("recreated")) {
            Thread.sleep(WORK_MS);
            recreate();
        } else if (scene.equals("grows")) {
            Thread.sleep(WORK_MS);
            first.close();
            grow();
            first = new Member("A", topic);
            first.assigned.await();
            Thread.sleep(WITH_B_MS);
            woken = first;
        } else if (resubscribes) {
            var follows = new Member("B", other);
            follows.assigned.await();
            follows.close();
            woken = new Member("B", other, topic);
            woken.assigned.await();
            first.close();
            first = new Member("A", other, topic);
            first.assigned.await();
            Thread.sleep(WITH_B_MS);
        } else {
            woken = new Member("C", topic);
            woken.assigned.await();
            Thread.sleep(2 * WORK_MS);
            woken.disturbed = true;
        }
        var joins = resubscribes ? new Member("D", other, topic) : new Member("B", topic);
        joins.assigned.await();
        Thread.sleep(WITH_B_MS);
        joins.close();
        Thread.sleep(AFTER_B_MS);
        woken.close();
        first.close();
        System.exit(0);
    }

    static void produce() {
        var records = new KafkaProducer<>(Map.of("bootstrap.servers", bootstrap, "client.id", "P"),
            new StringSerializer(), new StringSerializer());
        for (int number = 0; ; number++) {
            if (value != null) {
                records.send(new ProducerRecord<>(topic, number % partitions, null, value));
            }
            try {
                Thread.sleep(5);
            } catch (InterruptedException e) {
                return;
            }
        }
    }

    static void grow() throws Exception {
        try (var admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(2))).all().get();
        }
        partitions = 2;
    }

    static void recreate() throws Exception {
        value = null;
        Thread.sleep(WORK_MS);
        try (var admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            admin.deleteTopics(List.of(topic)).all().get();
            while (admin.listTopics().names().get().contains(topic)) {
                Thread.sleep(10);
            }
            admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 1))).all().get();
        }
        value = "second";
    }
}
