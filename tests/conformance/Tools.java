import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.InvocationTargetException;
import java.util.Arrays;
import org.apache.kafka.common.utils.Exit;

/** Runs Kafka's own command line tools in one JVM: a line of standard input is a class and its arguments. */
public class Tools {
    static class Ended extends RuntimeException {
        Ended(int code) { super("exit " + code); }
    }

    public static void main(String[] none) throws Exception {
        Exit.setExitProcedure((code, message) -> { throw new Ended(code); });
        Exit.setHaltProcedure((code, message) -> { throw new Ended(code); });
        System.setErr(System.out);
        var in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; ) {
            String[] words = line.split(" ");
            Object arguments = Arrays.copyOfRange(words, 1, words.length);
            try {
                Class.forName(words[0]).getMethod("main", String[].class).invoke(null, arguments);
            } catch (InvocationTargetException problem) {
                System.out.println(problem.getCause());
            }
            System.out.println("done");
            System.out.flush();
        }
    }
}
