import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.RetryForever;

/**
 * A Curator client that follows the list of servers (EnsembleTracker), and changes it.
 *
 * usage: CuratorTracker HOST LINE
 *
 * LINE is that of a server to add. At the end it prints "ok", waits for "go" and exits with status 0. Any error is a
 * stack trace and status 1.
 */
public final class CuratorTracker {
    static final long PATIENCE = 60_000; // ms

    public static void main(String[] args) throws Exception {
        String host = args[0];
        String line = args[1];
        String client = line.substring(line.indexOf(';') + 1);
        try (CuratorFramework c = CuratorFrameworkFactory.builder()
                .connectString(host)
                .sessionTimeoutMs(10_000)
                .authorization("digest", "super:secret".getBytes(StandardCharsets.UTF_8))
                .retryPolicy(new RetryForever(100))
                .build()) {
            c.start();
            String text = text(c.getConfig().forEnsemble());
            List<String> joining = new ArrayList<>();
            for (String known : text.split("\n")) {
                if (known.startsWith("server.1=")) {
                    joining.add(known + ";" + host); // as long as no server has an address for clients, Curator keeps its own
                }
            }
            joining.add(line);
            text = text(c.reconfig().joining(joining).forEnsemble());
            check(text.contains(line), "the list is " + text);
            await(c, host + "," + client);
            text = text(c.reconfig().leaving("100").forEnsemble());
            check(!text.contains(line), "the list is " + text);
            await(c, host);
        }
        System.out.println("ok");
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8)).readLine();
    }

    /** Waits until the client connects to these hosts. */
    static void await(CuratorFramework c, String hosts) throws Exception {
        for (long end = System.currentTimeMillis() + PATIENCE;; Thread.sleep(20)) {
            String now = c.getZookeeperClient().getCurrentConnectionString();
            if (now.equals(hosts)) {
                return;
            }
            check(System.currentTimeMillis() < end, "connects to " + now + ", want " + hosts);
        }
    }

    static String text(byte[] data) {
        return new String(data, StandardCharsets.UTF_8);
    }

    static void check(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }
}
