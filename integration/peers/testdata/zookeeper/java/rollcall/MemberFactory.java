package rollcall;

import java.io.File;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.apache.zookeeper.server.ServerCnxn;
import org.apache.zookeeper.server.ServerCnxnFactory;
import org.apache.zookeeper.server.ZooKeeperServer;

/**
 * Serves clients with a member of Rollcall instead of the ZooKeeperServer that it is given. It takes that server's ports,
 * limits and directory, and never starts it.
 */
public class MemberFactory extends ServerCnxnFactory {

    private InetSocketAddress address;
    private int clientsPerHost;
    private Member member;

    @Override
    public void configure(InetSocketAddress address, int clientsPerHost, int backlog, boolean secure) {
        this.address = address;
        this.clientsPerHost = clientsPerHost;
        this.secure = secure;
    }

    @Override
    public void startup(ZooKeeperServer server, boolean startServer) throws IOException, InterruptedException {
        setZooKeeperServer(server);
        List<String> lines = new ArrayList<>();
        lines.add((secure ? "secureClientPort=" : "clientPort=") + getLocalPort());
        if (!address.getAddress().isAnyLocalAddress()) {
            lines.add((secure ? "secureClientPortAddress=" : "clientPortAddress=") + address.getHostString());
        }
        lines.add("tickTime=" + server.getTickTime());
        lines.add("minSessionTimeout=" + server.getMinSessionTimeout());
        lines.add("maxSessionTimeout=" + server.getMaxSessionTimeout());
        if (clientsPerHost >= 0) {
            lines.add("maxClientCnxns=" + clientsPerHost);
        }
        File dir = server.getTxnLogFactory().getDataDir().getParentFile();
        member = new Member(dir, 1, lines);
        member.start();
        member.awaitPort(getLocalPort());
    }

    @Override
    public void shutdown() {
        try {
            if (member != null) {
                member.stop();
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    @Override
    public void start() {
    }

    @Override
    public void join() {
    }

    @Override
    public void reconfigure(InetSocketAddress address) {
    }

    @Override
    public int getLocalPort() {
        return address.getPort();
    }

    @Override
    public InetSocketAddress getLocalAddress() {
        return address;
    }

    @Override
    public int getMaxClientCnxnsPerHost() {
        return clientsPerHost;
    }

    @Override
    public void setMaxClientCnxnsPerHost(int max) {
        clientsPerHost = max;
    }

    @Override
    public int getSocketListenBacklog() {
        return -1;
    }

    @Override
    public Iterable<ServerCnxn> getConnections() {
        return Collections.emptyList();
    }

    @Override
    public Iterable<Map<String, Object>> getAllConnectionInfo(boolean brief) {
        return Collections.emptyList();
    }

    @Override
    public void resetAllConnectionStats() {
    }

    @Override
    public void closeAll(ServerCnxn.DisconnectReason reason) {
    }

}
