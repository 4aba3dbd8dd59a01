import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;

import org.apache.zookeeper.client.ConnectStringParser;
import org.apache.zookeeper.client.HostProvider;

/** Servers in the order in which they are named: the client's own way is to shuffle them. */
final class InOrder implements HostProvider {
    private final List<InetSocketAddress> servers;
    private int last = -1;
    private boolean again; // the next one is tried behind a failure

    InOrder(String connect) {
        servers = resolved(new ConnectStringParser(connect).getServerAddresses());
    }

    private static List<InetSocketAddress> resolved(Collection<InetSocketAddress> named) {
        List<InetSocketAddress> out = new ArrayList<>();
        for (InetSocketAddress a : named) {
            out.add(new InetSocketAddress(a.getHostString(), a.getPort()));
        }
        return out;
    }

    @Override
    public synchronized int size() {
        return servers.size();
    }

    @Override
    public synchronized InetSocketAddress next(long spinDelay) {
        last = (last + 1) % servers.size();
        if (again && last == 0 && spinDelay > 0) { // all have been tried
            try {
                Thread.sleep(spinDelay);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }
        again = true;
        return servers.get(last);
    }

    @Override
    public synchronized void onConnected() {
        again = false;
    }

    @Override
    public boolean updateServerList(Collection<InetSocketAddress> named, InetSocketAddress current) {
        return false;
    }
}
