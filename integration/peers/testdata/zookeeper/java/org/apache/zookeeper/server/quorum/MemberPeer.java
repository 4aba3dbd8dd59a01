package org.apache.zookeeper.server.quorum;

import java.io.File;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.zookeeper.client.FourLetterWordMain;
import org.mockito.Mockito;
import rollcall.Member;

/** A peer that is a member of Rollcall. It follows the member's role, so that tests find the leader. */
public class MemberPeer extends QuorumPeer {

    private static final int POLL_MILLIS = 100;
    private static final Set<MemberPeer> RUNNING = ConcurrentHashMap.newKeySet();

    private final int clientPort;
    private final Member member;
    private Thread poller;

    /** A peer with the server lines of servers. It has its data below snapDir. */
    public MemberPeer(Map<Long, QuorumServer> servers, File snapDir, File logDir, int clientPort, int electionAlg, long id,
                      int tickTime, int initLimit, int syncLimit, int connectToLearnerMasterLimit) throws IOException {
        super(servers, snapDir, logDir, clientPort, electionAlg, id, tickTime, initLimit, syncLimit, connectToLearnerMasterLimit);
        this.clientPort = clientPort;
        List<String> lines = new ArrayList<>();
        lines.add("tickTime=" + tickTime);
        lines.add("initLimit=" + initLimit);
        lines.add("syncLimit=" + syncLimit);
        lines.add("reconfigEnabled=" + QuorumPeerConfig.isReconfigEnabled());
        servers.forEach((number, server) -> lines.add("server." + number + "=" + server));
        member = new Member(snapDir, id, lines);
    }

    /** A peer without an oracle, which Rollcall does not have. */
    public MemberPeer(Map<Long, QuorumServer> servers, File snapDir, File logDir, int clientPort, int electionAlg, long id,
                      int tickTime, int initLimit, int syncLimit, int connectToLearnerMasterLimit, String oracle) throws IOException {
        this(servers, snapDir, logDir, clientPort, electionAlg, id, tickTime, initLimit, syncLimit, connectToLearnerMasterLimit);
    }

    /** A peer of a program that has its configuration in a file. */
    MemberPeer(Member member, int clientPort) throws IOException {
        this.member = member;
        this.clientPort = clientPort;
    }

    /** Learns the present roles of all peers that run. */
    public static void updateRoles() {
        RUNNING.forEach(MemberPeer::updateRole);
    }

    @Override
    public synchronized void start() {
        try {
            member.start();
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
        RUNNING.add(this);
        poller = new Thread(this::poll);
        poller.start();
    }

    private void poll() {
        while (RUNNING.contains(this)) {
            updateRole();
            try {
                Thread.sleep(POLL_MILLIS);
            } catch (InterruptedException e) {
                return;
            }
        }
    }

    private void updateRole() {
        setRole(role());
    }

    private void setRole(ServerState role) {
        setPeerState(role);
        leader = role == ServerState.LEADING ? Mockito.mock(Leader.class) : null;
        follower = role == ServerState.FOLLOWING ? Mockito.mock(Follower.class) : null;
        observer = role == ServerState.OBSERVING ? Mockito.mock(Observer.class) : null;
    }

    private ServerState role() {
        String reply;
        try {
            reply = FourLetterWordMain.send4LetterWord("127.0.0.1", clientPort, "srvr");
        } catch (Exception e) {
            return ServerState.LOOKING; // it does not run
        }
        if (reply.contains("Mode: leader")) {
            return ServerState.LEADING;
        } else if (reply.contains("Mode: follower")) {
            return ServerState.FOLLOWING;
        } else if (reply.contains("Mode: observer")) {
            return ServerState.OBSERVING;
        }
        return ServerState.LOOKING;
    }

    @Override
    public void shutdown() {
        if (RUNNING.remove(this)) {
            try {
                poller.join();
                member.stop();
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
            setRole(ServerState.LOOKING);
        }
    }

}
