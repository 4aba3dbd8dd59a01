import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Callable;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.api.transaction.CuratorTransactionResult;
import org.apache.curator.framework.recipes.cache.ChildData;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderLatchListener;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryForever;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.Stat;

/**
 * One Curator client of one scenario, told by its standard input when to go on.
 *
 * usage: CuratorClient SCENARIO ROOT NAME NAMES HOSTS stays|moves
 *
 * NAMES are the names of all clients of the scenario, with commas; NAME is this one's. HOSTS are
 * tried in their order. A client that moves has its first host killed.
 *
 * It prints "ready" and waits for "go", several times where clients must meet; the fault comes
 * before the "go" behind "ready fault". At the end it prints "ok", waits for "go", closes its
 * session and exits with status 0. Any error is a stack trace and status 1.
 */
public final class CuratorClient {
    static final long PATIENCE = 60_000; // ms, for anything that must happen
    static final long LOOK = 20; // ms between two looks at a condition
    static final int TIMEOUT = 10_000; // ms, of the session

    final String root;
    final String name;
    final List<String> names;
    final boolean moves;
    final CuratorFramework client;
    final List<ConnectionState> states = Collections.synchronizedList(new ArrayList<>());
    final BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    long session;

    interface Scenario {
        void play(CuratorClient a) throws Exception;
    }

    CuratorClient(String root, String name, String names, String hosts, boolean moves) throws Exception {
        this.root = root;
        this.name = name;
        this.names = Arrays.asList(names.split(","));
        this.moves = moves;
        client = CuratorFrameworkFactory.builder()
                .connectString(hosts)
                .sessionTimeoutMs(TIMEOUT)
                .retryPolicy(new RetryForever(100))
                .zookeeperFactory((to, timeout, watcher, readOnly) ->
                        new ZooKeeper(to, timeout, watcher, readOnly, new InOrder(to)))
                .build();
        client.getConnectionStateListenable().addListener((c, state) -> states.add(state));
        client.start();
        check(client.blockUntilConnected((int) PATIENCE, TimeUnit.MILLISECONDS), "not connected");
        session = client.getZookeeperClient().getZooKeeper().getSessionId();
        await(() -> states.contains(ConnectionState.CONNECTED), "the listener hears of the connection");
    }

    /** Whether this is the client that begins where one must; it moves if any does. */
    boolean first() {
        return name.equals(names.get(0));
    }

    String path(String... parts) {
        return root + "/" + String.join("/", parts);
    }

    /** Waits for all clients. */
    void meet() throws Exception {
        pause("ready");
    }

    /** Waits for all clients and the fault, and until this client can go on. */
    void fault() throws Exception {
        undisturbed();
        pause("ready fault");
        if (moves) {
            await(() -> {
                int n = states.size();
                return n > 2 && states.get(n - 1) == ConnectionState.RECONNECTED;
            }, "the session goes on");
        }
    }

    void pause(String word) throws Exception {
        System.out.println(word);
        String line = in.readLine();
        check("go".equals(line), "told " + line);
    }

    /** Checks that the session was hurt no more than this client's place explains. */
    void undisturbed() throws Exception {
        long now = client.getZookeeperClient().getZooKeeper().getSessionId();
        check(now == session, "session was " + session + ", is " + now);
        if (moves) {
            check(!states.contains(ConnectionState.LOST), "heard " + states);
        } else {
            check(states.equals(Collections.singletonList(ConnectionState.CONNECTED)),
                    "a client of a surviving member heard " + states);
        }
    }

    /** Checks that the node is this session's ephemeral. */
    void owns(String path) throws Exception {
        Stat stat = client.checkExists().forPath(path);
        check(stat != null && stat.getEphemeralOwner() == session, path + " is " + stat);
    }

    List<String> children(String path) throws Exception {
        client.sync().forPath(path); // waits in Curator 5
        return client.getChildren().forPath(path);
    }

    byte[] data(String path) throws Exception {
        return client.getData().forPath(path);
    }

    /** Adds one to a number without care: whoever has the lock may. */
    void count(String path) throws Exception {
        Stat stat = new Stat();
        int n = Integer.parseInt(text(client.getData().storingStatIn(stat).forPath(path)));
        client.setData().withVersion(stat.getVersion()).forPath(path, bytes(n + 1));
    }

    static byte[] bytes(Object value) {
        return String.valueOf(value).getBytes(StandardCharsets.UTF_8);
    }

    static String text(byte[] data) {
        return data == null ? "" : new String(data, StandardCharsets.UTF_8);
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

    /** A function in a thread of its own, whose error result passes on. */
    static FutureTask<Void> background(Callable<Void> function) {
        FutureTask<Void> task = new FutureTask<>(function);
        Thread thread = new Thread(task);
        thread.setDaemon(true);
        thread.start();
        return task;
    }

    static void result(FutureTask<Void> task) throws Exception {
        task.get(PATIENCE, TimeUnit.MILLISECONDS);
    }

    /** The first client leads through the fault, then each of the others once. */
    static void latch(CuratorClient a) throws Exception {
        String election = a.path("election");
        AtomicInteger lost = new AtomicInteger();
        LeaderLatch latch = new LeaderLatch(a.client, election, a.name);
        latch.addListener(new LeaderLatchListener() {
            @Override
            public void isLeader() {
            }

            @Override
            public void notLeader() {
                lost.incrementAndGet();
            }
        });
        if (a.first()) {
            latch.start();
            check(latch.await(PATIENCE, TimeUnit.MILLISECONDS), "not elected");
            a.client.create().forPath(a.path("led"));
            a.client.create().forPath(a.path("led", a.name));
        }
        a.meet();
        if (!a.first()) {
            latch.start();
        }
        await(() -> seen(latch::getParticipants) == a.names.size(), "all stand for election");
        check(latch.hasLeadership() == a.first(), "leads: " + latch.hasLeadership());
        a.fault();
        if (a.first() && a.moves) { // Curator gives up leadership while it is suspended, and stands again
            await(() -> latch.hasLeadership() || lost.get() > 0, "told of the suspension");
        } else if (a.first()) {
            check(latch.hasLeadership() && lost.get() == 0, "lost leadership");
        }
        a.meet();
        if (a.first()) {
            latch.close();
        } else {
            check(latch.await(PATIENCE, TimeUnit.MILLISECONDS), "never elected");
            a.client.create().forPath(a.path("led", a.name));
            latch.close();
        }
        a.meet();
        check(new TreeSet<>(a.children(a.path("led"))).equals(new TreeSet<>(a.names)), "led: " + a.children(a.path("led")));
    }

    static int seen(Callable<? extends Collection<?>> what) {
        try {
            return what.call().size();
        } catch (Exception e) {
            return -1; // the nodes are not there yet
        }
    }

    /** The first client holds the lock through the fault, the others wait for it. */
    static void mutex(CuratorClient a) throws Exception {
        String total = a.path("total");
        InterProcessMutex mine = new InterProcessMutex(a.client, a.path("lock"));
        if (a.first()) {
            a.client.create().forPath(total, bytes(0));
            mine.acquire();
        }
        a.meet();
        FutureTask<Void> rest = a.first() ? null : background(() -> {
            mine.acquire();
            a.count(total);
            mine.release();
            return null;
        });
        await(() -> seen(mine::getParticipantNodes) == a.names.size(), "all contend for the lock");
        a.fault();
        if (a.first()) {
            check(mine.isAcquiredInThisProcess(), "the lock is gone");
            check(text(a.data(total)).equals("0"), "somebody else had the lock");
            for (String node : mine.getParticipantNodes().stream().limit(1).toArray(String[]::new)) {
                a.owns(node);
            }
            a.count(total);
            mine.release();
        } else {
            result(rest);
        }
        for (int i = 0; i < 5; i++) {
            check(mine.acquire(PATIENCE, TimeUnit.MILLISECONDS), "no lock");
            a.count(total);
            mine.release();
        }
        a.meet();
        a.client.sync().forPath(total);
        check(text(a.data(total)).equals(String.valueOf(6 * a.names.size())), "total " + text(a.data(total)));
    }

    /** One lease fewer than clients: somebody waits, until one is given back. */
    static void semaphore(CuratorClient a) throws Exception {
        int most = a.names.size() - 1;
        InterProcessSemaphoreV2 semaphore = new InterProcessSemaphoreV2(a.client, a.path("semaphore"), most);
        Lease held = null;
        if (a.first()) {
            held = semaphore.acquire(PATIENCE, TimeUnit.MILLISECONDS);
            check(held != null, "no lease");
        }
        a.meet();
        String inside = a.path("inside-");
        FutureTask<Void> rest = a.first() ? null : background(() -> {
            Lease lease = semaphore.acquire(PATIENCE, TimeUnit.MILLISECONDS);
            check(lease != null, "no lease");
            String node = a.client.create().withMode(CreateMode.EPHEMERAL_SEQUENTIAL).forPath(inside);
            check(a.children(a.root).stream().filter(c -> c.startsWith("inside-")).count() <= most, "too many inside");
            a.client.delete().forPath(node);
            lease.close();
            return null;
        });
        a.fault();
        if (a.first()) {
            check(semaphore.getParticipantNodes().size() >= 1, "the lease is gone");
            held.close();
        } else {
            result(rest);
        }
        a.meet();
        await(() -> seen(semaphore::getParticipantNodes) == 0, "all leases are back");
    }

    /** A node that Curator keeps: it is made again when somebody deletes it. */
    static void persistentNode(CuratorClient a) throws Exception {
        String path = a.path(a.name);
        try (PersistentNode node = new PersistentNode(a.client, CreateMode.EPHEMERAL, false, path, bytes("mine"))) {
            node.start();
            check(node.waitForInitialCreate(PATIENCE, TimeUnit.MILLISECONDS), "not created");
            a.owns(path);
            a.fault();
            a.owns(path);
            long made = a.client.checkExists().forPath(path).getCzxid();
            a.client.delete().forPath(path);
            await(() -> {
                try {
                    Stat stat = a.client.checkExists().forPath(path);
                    return stat != null && stat.getCzxid() > made;
                } catch (Exception e) {
                    throw new IllegalStateException(e);
                }
            }, "made again");
            a.owns(path);
            node.setData(bytes("other"));
            check(text(a.data(path)).equals("other"), "data " + text(a.data(path)));
        }
        check(a.client.checkExists().forPath(path) == null, "still there behind close");
    }

    /** Everybody caches the whole tree of the scenario, by a recursive persistent watch. */
    static void cache(CuratorClient a) throws Exception {
        Map<String, String> seen = new ConcurrentHashMap<>();
        try (CuratorCache cache = CuratorCache.build(a.client, a.root)) {
            cache.listenable().addListener((type, old, now) -> {
                if (now == null) {
                    seen.remove(old.getPath());
                } else {
                    seen.put(now.getPath(), text(now.getData()));
                }
            });
            cache.start();
            a.meet();
            a.client.create().forPath(a.path(a.name), bytes("before"));
            a.client.create().forPath(a.path(a.name, "child"), bytes("c"));
            allSee(a, seen, "before");
            a.fault();
            a.client.setData().forPath(a.path(a.name), bytes("after"));
            allSee(a, seen, "after");
            for (String n : a.names) {
                ChildData kept = cache.get(a.path(n, "child")).orElse(null);
                check(kept != null && text(kept.getData()).equals("c"), "child of " + n + ": " + kept);
            }
            a.meet();
            a.client.delete().deletingChildrenIfNeeded().forPath(a.path(a.name));
            await(() -> seen.size() == 1, "only the root is left: " + seen);
        }
    }

    static void allSee(CuratorClient a, Map<String, String> seen, String data) throws Exception {
        await(() -> a.names.stream().allMatch(n -> data.equals(seen.get(a.path(n)))), data + " in " + seen);
    }

    static void group(CuratorClient a) throws Exception {
        try (GroupMember member = new GroupMember(a.client, a.path("group"), a.name, bytes("data of " + a.name))) {
            member.start();
            await(() -> member.getCurrentMembers().size() == a.names.size(), "all have joined");
            a.fault();
            await(() -> member.getCurrentMembers().size() == a.names.size(), "all are still there");
            for (String n : a.names) {
                check(text(member.getCurrentMembers().get(n)).equals("data of " + n), "data of " + n);
            }
            a.owns(a.path("group", a.name));
            a.meet();
        }
        await(() -> {
            try {
                return a.children(a.path("group")).isEmpty();
            } catch (KeeperException.NoNodeException e) {
                return true; // the group is a container: it goes when it is empty
            } catch (Exception e) {
                throw new IllegalStateException(e);
            }
        }, "all have left");
    }

    /** Transactions happen whole or not at all. */
    static void transaction(CuratorClient a) throws Exception {
        transact(a, a.path(a.name + "-before"));
        a.fault();
        transact(a, a.path(a.name + "-after"));
    }

    static void transact(CuratorClient a, String path) throws Exception {
        List<CuratorTransactionResult> results = a.client.transaction().forOperations(
                a.client.transactionOp().create().forPath(path, bytes(1)),
                a.client.transactionOp().check().withVersion(0).forPath(path),
                a.client.transactionOp().setData().withVersion(0).forPath(path, bytes(2)),
                a.client.transactionOp().create().forPath(path + "/child"),
                a.client.transactionOp().delete().forPath(path + "/child"));
        check(results.size() == 5 && results.get(0).getResultPath().equals(path), "results " + results);
        check(results.get(2).getResultStat().getVersion() == 1, "version " + results.get(2).getResultStat());
        check(text(a.data(path)).equals("2"), "data " + text(a.data(path)));
        try {
            a.client.transaction().forOperations(
                    a.client.transactionOp().create().forPath(path + "/other"),
                    a.client.transactionOp().check().withVersion(7).forPath(path),
                    a.client.transactionOp().delete().forPath(path));
            check(false, "a transaction with a wrong version succeeded");
        } catch (KeeperException.BadVersionException e) {
            check(e.getResults().size() == 3, "results " + e.getResults());
        }
        check(a.client.checkExists().forPath(path + "/other") == null, "half a transaction happened");
    }

    static Scenario scenario(String name) {
        switch (name) {
            case "latch": return CuratorClient::latch;
            case "mutex": return CuratorClient::mutex;
            case "semaphore": return CuratorClient::semaphore;
            case "persistent-node": return CuratorClient::persistentNode;
            case "cache": return CuratorClient::cache;
            case "group": return CuratorClient::group;
            case "transaction": return CuratorClient::transaction;
            default: throw new IllegalArgumentException("no scenario " + name);
        }
    }

    public static void main(String[] args) {
        try {
            CuratorClient actor = new CuratorClient(args[1], args[2], args[3], args[4], args[5].equals("moves"));
            scenario(args[0]).play(actor);
            actor.undisturbed();
            actor.pause("ok");
            actor.client.close();
            System.exit(0);
        } catch (Throwable e) {
            e.printStackTrace();
            System.exit(1);
        }
    }
}
