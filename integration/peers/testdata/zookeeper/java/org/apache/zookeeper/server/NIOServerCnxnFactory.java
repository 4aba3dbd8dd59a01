package org.apache.zookeeper.server;

import rollcall.MemberFactory;

/** Takes the place of ZooKeeper's class of this name, so that no test can start ZooKeeper's own server with it. */
public class NIOServerCnxnFactory extends MemberFactory {

    public static final String ZOOKEEPER_NIO_SESSIONLESS_CNXN_TIMEOUT = "zookeeper.nio.sessionlessCnxnTimeout";

}
