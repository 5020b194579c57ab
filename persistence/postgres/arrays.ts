import { parse } from 'postgres-array'
import type { PostgresType } from 'postgres'

/** Object ids of the array types in use; pg_type.dat fixes them for every PostgreSQL. */
const OIDS = { bool: 1000, int4: 1007, text: 1009, int8: 1016, float8: 1022, uuid: 2951 } as const

type Item = string | number | bigint | boolean | null

/**
 * Array types said here, once. Left to itself the driver asks each new connection for them, and a
 * server that dies at that moment ends our process: nobody handles that promise
 * (github.com/porsager/postgres/issues/1192).
 */
export const ARRAY_TYPES: Record<`${keyof typeof OIDS}s`, PostgresType> = {
  bools: arrayOf(OIDS.bool, (text) => text === 't'),
  int4s: arrayOf(OIDS.int4, Number),
  texts: arrayOf(OIDS.text, String),
  int8s: arrayOf(OIDS.int8, BigInt),
  float8s: arrayOf(OIDS.float8, Number),
  uuids: arrayOf(OIDS.uuid, String),
}

function arrayOf(oid: number, read: (text: string) => Item): PostgresType {
  return { to: oid, from: [oid], serialize: literal, parse: (text: string) => parse(text, read) }
}

/** An array literal of one dimension; text that is one already is passed on. */
function literal(items: readonly Item[] | string): string {
  if (typeof items === 'string') return items
  return `{${items.map(element).join(',')}}`
}

function element(item: Item): string {
  if (item === null) return 'NULL'
  return typeof item === 'string' ? `"${item.replace(/["\\]/g, '\\$&')}"` : String(item)
}
