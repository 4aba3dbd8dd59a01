import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;

import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher.Event.EventType;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;

/**
 * ZooKeeper's own Java client, one case at a time.
 *
 * usage: ClientCases CASE HOSTS TIMEOUT
 *
 * It prints the word for what shall happen to it ("cut", "block", "restart", ...), waits for "go",
 * prints "ok" at the end, waits for "go" and exits with status 0. Any error is a stack trace and
 * status 1.
 */
public final class ClientCases {
    static final long PATIENCE = 60_000; // ms, for anything that must happen
    static final long LOOK = 10; // ms between two looks at a condition

    final String hosts;
    final int timeout;
    final List<WatchedEvent> events = Collections.synchronizedList(new ArrayList<>());
    final BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));

    interface Case {
        void run(ClientCases c) throws Exception;
    }

    ClientCases(String hosts, int timeout) {
        this.hosts = hosts;
        this.timeout = timeout;
    }

    ZooKeeper connect(String chroot) throws Exception {
        int before = states().size();
        ZooKeeper zk = new ZooKeeper(hosts + chroot, timeout, events::add);
        await(() -> states().size() > before, "connected");
        check(last() == KeeperState.SyncConnected, "connected: " + states());
        return zk;
    }

    /** What was told of the session, in order. */
    List<KeeperState> states() {
        List<KeeperState> out = new ArrayList<>();
        synchronized (events) {
            for (WatchedEvent e : events) {
                if (e.getType() == EventType.None) {
                    out.add(e.getState());
                }
            }
        }
        return out;
    }

    KeeperState last() {
        List<KeeperState> all = states();
        return all.get(all.size() - 1);
    }

    /** What was told of nodes, in order. */
    List<String> nodes() {
        List<String> out = new ArrayList<>();
        synchronized (events) {
            for (WatchedEvent e : events) {
                if (e.getType() != EventType.None) {
                    out.add(e.getType() + " " + e.getPath());
                }
            }
        }
        return out;
    }

    void pause(String word) throws Exception {
        System.out.println(word);
        String line = in.readLine();
        check("go".equals(line), "told " + line);
    }

    static void check(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    static void await(BooleanSupplier condition, String what) throws InterruptedException {
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(PATIENCE);
        while (!condition.getAsBoolean()) {
            check(System.nanoTime() < end, "waited in vain: " + what);
            Thread.sleep(LOOK);
        }
    }

    static String make(ZooKeeper zk, String path) throws Exception {
        return zk.create(path, new byte[0], ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
    }

    static final List<KeeperState> THERE_AND_BACK =
            Arrays.asList(KeeperState.SyncConnected, KeeperState.Disconnected, KeeperState.SyncConnected);

    /** 348: the connection is killed. */
    static void killed(ClientCases c) throws Exception {
        ZooKeeper zk = c.connect("");
        long id = zk.getSessionId();
        c.pause("cut");
        await(() -> c.states().size() >= 3, "three events");
        zk.exists("/", false);
        check(c.states().equals(THERE_AND_BACK), "states " + c.states());
        check(zk.getSessionId() == id, "another session");
        zk.close();
    }

    /** 349: the session expires while the client is cut off. */
    static void expired(ClientCases c) throws Exception {
        ZooKeeper zk = c.connect("");
        make(zk, "/sessions");
        zk.create("/sessions/mine", new byte[0], ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
        c.pause("block until expired");
        await(() -> c.last() == KeeperState.Expired, "expired");
        check(zk.getState() == ZooKeeper.States.CLOSED, "state " + zk.getState());
    }

    /** 350: a write while the client is cut off. */
    static void writeWhileCutOff(ClientCases c) throws Exception {
        ZooKeeper zk = c.connect("");
        make(zk, "/w");
        c.pause("block");
        await(() -> c.last() == KeeperState.Disconnected, "disconnected");
        try {
            zk.setData("/w", new byte[] {1}, -1);
            check(false, "a write without a connection succeeded");
        } catch (KeeperException.ConnectionLossException e) {
            // as it must be
        }
        c.pause("unblock");
        await(() -> c.last() == KeeperState.SyncConnected, "connected again");
        check(zk.setData("/w", new byte[] {2}, 0).getVersion() == 1, "version");
        zk.close();
    }

    /** 351: the server is restarted, and nodes change while the client is away. */
    static void watchesCatchUp(ClientCases c) throws Exception {
        ZooKeeper zk = c.connect("");
        for (String path : new String[] {"/data", "/gone", "/parent"}) {
            make(zk, path);
        }
        zk.getData("/data", true, null);
        zk.exists("/gone", true);
        check(zk.exists("/new", true) == null, "/new is there");
        zk.getChildren("/parent", true);
        c.pause("block");
        await(() -> c.last() == KeeperState.Disconnected, "disconnected");
        c.pause("restart and change");
        await(() -> c.nodes().size() >= 4, "four events, " + c.nodes());
        List<String> got = c.nodes();
        Collections.sort(got);
        check(got.equals(Arrays.asList("NodeChildrenChanged /parent", "NodeCreated /new", "NodeDataChanged /data", "NodeDeleted /gone")),
                "events " + got);
        zk.close();
    }

    /** 352: a watch below a chroot, and a new connection. */
    static void chroot(ClientCases c) throws Exception {
        ZooKeeper root = c.connect("");
        make(root, "/app");
        make(root, "/app/n");
        ZooKeeper zk = c.connect("/app");
        zk.getData("/n", true, null);
        int before = c.states().size();
        c.pause("cut");
        await(() -> {
            List<KeeperState> states = c.states(); // once: it grows meanwhile
            return Collections.frequency(states.subList(before, states.size()), KeeperState.SyncConnected) == 2;
        }, "both are back");
        root.setData("/app/n", new byte[] {1}, -1);
        await(() -> c.nodes().size() == 1, "the event");
        check(c.nodes().get(0).equals("NodeDataChanged /n"), "event " + c.nodes());
        zk.close();
        root.close();
    }

    /** 353: a chroot that is not there. */
    static void missingChroot(ClientCases c) throws Exception {
        ZooKeeper zk = c.connect("/missing");
        try {
            zk.getChildren("/", false);
            check(false, "children of nothing");
        } catch (KeeperException.NoNodeException e) {
            // as it must be
        }
        zk.close();
    }

    /** 354: a scheme that nobody knows. */
    static void badAuth(ClientCases c) throws Exception {
        ZooKeeper zk = c.connect("");
        zk.addAuthInfo("foo", new byte[] {1});
        await(() -> c.states().contains(KeeperState.AuthFailed), "told that it failed");
        for (int i = 0; i < 2; i++) {
            try {
                zk.getData("/", false, null);
                check(false, "a call behind a failed auth succeeded");
            } catch (KeeperException.AuthFailedException e) {
                // as it must be
            }
        }
    }

    /** 355: the counter of requests passes its greatest number. */
    static void xidWraps(ClientCases c) throws Exception {
        ZooKeeper zk = c.connect("");
        Field connection = ZooKeeper.class.getDeclaredField("cnxn");
        connection.setAccessible(true);
        Object cnxn = connection.get(zk);
        Field xid = cnxn.getClass().getDeclaredField("xid");
        xid.setAccessible(true);
        xid.setInt(cnxn, Integer.MAX_VALUE - 3);
        make(zk, "/x");
        for (int i = 0; i < 10; i++) {
            check(zk.setData("/x", new byte[0], i).getVersion() == i + 1, "version");
        }
        check(xid.getInt(cnxn) > 0 && xid.getInt(cnxn) < 20, "xid " + xid.getInt(cnxn));
        check(c.states().equals(Collections.singletonList(KeeperState.SyncConnected)), "states " + c.states());
        zk.close();
    }

    static Case named(String name) {
        switch (name) {
            case "killed": return ClientCases::killed;
            case "expired": return ClientCases::expired;
            case "write-while-cut-off": return ClientCases::writeWhileCutOff;
            case "watches-catch-up": return ClientCases::watchesCatchUp;
            case "chroot": return ClientCases::chroot;
            case "missing-chroot": return ClientCases::missingChroot;
            case "bad-auth": return ClientCases::badAuth;
            case "xid-wraps": return ClientCases::xidWraps;
            default: throw new IllegalArgumentException("no case " + name);
        }
    }

    public static void main(String[] args) {
        try {
            ClientCases c = new ClientCases(args[1], Integer.parseInt(args[2]));
            named(args[0]).run(c);
            c.pause("ok");
            System.exit(0);
        } catch (Throwable e) {
            e.printStackTrace();
            System.exit(1);
        }
    }
}
