import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.ByteBuffer;
import java.util.Base64;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/**
 * Prints the bytes of a message, in base64, as Kafka's own classes write them.
 *
 * <p>Arguments: the class of the message (DeleteGroupsResponseData), its version, its fields as JSON.
 */
public class WriteMessage {
    public static void main(String[] arguments) throws Exception {
        String name = "org.apache.kafka.common.message." + arguments[0];
        short version = Short.parseShort(arguments[1]);
        JsonNode fields = new ObjectMapper().readTree(arguments[2]);
        Message message = (Message) Class.forName(name + "JsonConverter")
            .getMethod("read", JsonNode.class, short.class)
            .invoke(null, fields, version);
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer bytes = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(bytes), cache, version);
        System.out.println(Base64.getEncoder().encodeToString(bytes.array()));
    }
}
