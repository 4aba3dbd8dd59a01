// Package others holds only tests. They run locks of other libraries, kazoo, Curator and go-zookeeper, as processes
// beside those of the client module. They need the Debian packages default-jdk-headless, libcurator-recipes-java and
// python3-kazoo.
package others
