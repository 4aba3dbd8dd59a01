import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Set;
import java.util.TreeSet;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.RetryForever;
import org.apache.zookeeper.CreateMode;

/**
 * A Curator client that follows the list of servers (EnsembleTracker), and goes on when all servers that it knew at
 * first are gone.
 *
 * usage: CuratorFollows HOST LATER...
 *
 * LATER are the servers at the end. The program prints "replace all servers" and waits for "go". At the end it prints
 * "ok", waits for "go" and exits with status 0. Any error is a stack trace and status 1.
 */
public final class CuratorFollows {
    static final long PATIENCE = 60_000; // ms

    public static void main(String[] args) throws Exception {
        Set<String> later = new TreeSet<>(Arrays.asList(args).subList(1, args.length));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try (CuratorFramework c = CuratorFrameworkFactory.builder()
                .connectString(args[0])
                .sessionTimeoutMs(10_000)
                .retryPolicy(new RetryForever(100))
                .build()) {
            c.start();
            c.create().withMode(CreateMode.EPHEMERAL).forPath("/follows");
            long session = session(c);
            pause(in, "replace all servers");
            await(c, later);
            c.create().orSetData().forPath("/written"); // the first try may lose its connection
            long owner = c.checkExists().forPath("/follows").getEphemeralOwner();
            if (session(c) != session || owner != session) {
                throw new AssertionError("session " + session + ", then " + session(c) + ", owner " + owner);
            }
        }
        pause(in, "ok");
    }

    /** Waits until the client connects to these hosts. */
    static void await(CuratorFramework c, Set<String> hosts) throws InterruptedException {
        for (long end = System.currentTimeMillis() + PATIENCE;; Thread.sleep(20)) {
            Set<String> now = new TreeSet<>(Arrays.asList(c.getZookeeperClient().getCurrentConnectionString().split(",")));
            if (now.equals(hosts)) {
                return;
            }
            if (System.currentTimeMillis() > end) {
                throw new AssertionError("connects to " + now + ", want " + hosts);
            }
        }
    }

    static long session(CuratorFramework c) throws Exception {
        return c.getZookeeperClient().getZooKeeper().getSessionId();
    }

    static void pause(BufferedReader in, String word) throws IOException {
        System.out.println(word);
        if (!"go".equals(in.readLine())) {
            throw new AssertionError("not told to go on");
        }
    }
}
