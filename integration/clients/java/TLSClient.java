import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.client.ZKClientConfig;

/**
 * Connects over TLS as the lines on its input say:
 *
 * <pre>
 * try ADDRESS PATH KEY=VALUE...   connects with these settings, creates PATH for itself alone, prints its ACL
 * hold ADDRESS PATH KEY=VALUE...  the same, and keeps the session
 * fail ADDRESS PATH KEY=VALUE...  the same as try, but waits for a connection only briefly
 * use                             writes over the session that it keeps
 * </pre>
 *
 * If there is no connection in time, it prints "refused".
 */
public class TLSClient {
    static final long PATIENCE = 20000; // ms, for a connection that is to be made
    static final long REFUSAL = 1500; // for one that is not: the client tries again for so long
    static ZooKeeper held;
    static String mine;

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null;) {
            String[] words = line.split(" ");
            if (words[0].equals("use")) {
                held.setData(mine, new byte[0], -1);
                System.out.println("used by 0x" + Long.toHexString(held.getSessionId()));
                continue;
            }
            ZooKeeper zk = open(words);
            if (zk == null) {
                System.out.println("refused");
                continue;
            }
            zk.create(words[2], new byte[0], ZooDefs.Ids.CREATOR_ALL_ACL, CreateMode.PERSISTENT);
            System.out.println("created for " + zk.getACL(words[2], null).get(0).getId().getId() + " by 0x" + Long.toHexString(zk.getSessionId()));
            if (words[0].equals("hold")) {
                held = zk;
                mine = words[2];
            } else {
                zk.close();
            }
        }
        if (held != null) {
            held.close();
        }
    }

    static ZooKeeper open(String[] words) throws Exception {
        ZKClientConfig config = new ZKClientConfig();
        config.setProperty("zookeeper.client.secure", "true");
        config.setProperty("zookeeper.clientCnxnSocket", "org.apache.zookeeper.ClientCnxnSocketNetty");
        for (int i = 3; i < words.length; i++) {
            int equals = words[i].indexOf('=');
            config.setProperty("zookeeper.ssl." + words[i].substring(0, equals), words[i].substring(equals + 1));
        }
        CountDownLatch connected = new CountDownLatch(1);
        ZooKeeper zk = new ZooKeeper(words[1], 20000, event -> {
            if (event.getState() == Watcher.Event.KeeperState.SyncConnected) {
                connected.countDown();
            }
        }, config);
        if (connected.await(words[0].equals("fail") ? REFUSAL : PATIENCE, TimeUnit.MILLISECONDS)) {
            return zk;
        }
        zk.close();
        return null;
    }
}
