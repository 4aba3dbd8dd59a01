package org.apache.zookeeper.server;

import rollcall.MemberFactory;

/** Takes the place of ZooKeeper's class of this name, so that no test can start ZooKeeper's own server with it. */
public class NettyServerCnxnFactory extends MemberFactory {

    public static final String PORT_UNIFICATION_KEY = "zookeeper.client.portUnification";

}
