# Adapts QuorumBase.java and QuorumUtil.java of ZooKeeper's tests to peers that are members of Rollcall.

# Peers are members, and a test that looks for the leader sees their present roles.
s/new QuorumPeer(peers/new MemberPeer(peers/
s/^import org.apache.zookeeper.server.quorum.QuorumPeer;/import org.apache.zookeeper.server.quorum.MemberPeer;\n&/
s/public PeerStruct getPeer(int id) {/& MemberPeer.updateRoles();/

# A new ensemble of Rollcall begins when all its members run. startQuorum of QuorumUtil stops some of them then.
/public void startQuorum()/,/^    }/ {
  s/shutdownAll();/startAll(); for (int i = N + 2; i <= ALL; ++i) { shutdown(i); }/
  s/ start(i);//
}
