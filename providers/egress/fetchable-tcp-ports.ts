/** Decides which ports callers may reach. */

/**
 * Ports from 1024 up that are never fetched. `browsers` lists those that the Fetch standard blocks. The
 * others belong to databases, brokers and control planes: fetching them would probe networks on behalf of
 * callers. Common web server ports (3000, 4021, 8000, 8080, 8443) stay open.
 */
const REFUSED_PORTS: Readonly<Record<string, readonly number[]>> = {
  browsers: [
    1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669,
    6679, 6697, 10080,
  ],
  /** SQL Server, Oracle, Firebird, MySQL, PostgreSQL, CockroachDB, Db2. */
  relational: [1433, 1434, 1521, 1522, 3050, 3306, 5432, 5433, 6432, 26257, 33060, 50000],
  /** Redis and its sentinels, memcached, MongoDB, Cassandra, CouchDB, Elasticsearch, InfluxDB, Neo4j, ArangoDB. */
  stores: [
    5984, 6379, 6380, 7000, 7001, 7199, 7474, 7687, 8086, 8529, 9042, 9160, 9200, 9300, 11211,
    16379, 26379, 27017, 27018, 27019, 28017,
  ],
  /** MQTT, AMQP, NATS, Kafka, STOMP, ActiveMQ, beanstalkd. */
  brokers: [1883, 4222, 5671, 5672, 8883, 9092, 9093, 9094, 11300, 15672, 61613, 61616],
  /** ZooKeeper, Docker, etcd, epmd, kubelet, Consul. */
  control: [2181, 2375, 2376, 2377, 2379, 2380, 4369, 8500, 8600, 10250, 10255],
  /** SOCKS and other proxies, remote desktops and shells, git, Subversion, XMPP, the X Window System. */
  access: [
    1080, 3128, 3260, 3389, 3690, 5222, 5269, 5900, 5901, 5902, 5985, 5986, 6001, 9050, 9418,
  ],
}
const REFUSED_PORT_SET = new Set(Object.values(REFUSED_PORTS).flat())

/**
 * Returns whether a public host may be fetched on this port: 80, 443, and ports from 1024 except those of
 * other services.
 */
export const isFetchableTcpPort = (port: number): boolean =>
  port === 80 || port === 443 || (port >= 1024 && !REFUSED_PORT_SET.has(port))
