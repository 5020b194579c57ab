import { parse } from 'postgres-array'
import type { PostgresType } from 'postgres'

/** Array types for the Postgres driver. */

/** Object ids of the used array types; pg_type.dat fixes them for every PostgreSQL. */
const ARRAY_TYPE_OIDS = {
  bool: 1000,
  int4: 1007,
  text: 1009,
  int8: 1016,
  float8: 1022,
  uuid: 2951,
} as const

type ArrayItem = string | number | bigint | boolean | null

/**
 * Declares array types statically. Otherwise the driver queries them on each new connection, and a
 * server that dies at that moment ends our process by an unhandled rejection
 * (github.com/porsager/postgres/issues/1192).
 */
export const POSTGRES_ARRAY_TYPES: Record<`${keyof typeof ARRAY_TYPE_OIDS}s`, PostgresType> = {
  bools: createArrayType(ARRAY_TYPE_OIDS.bool, (text) => text === 't'),
  int4s: createArrayType(ARRAY_TYPE_OIDS.int4, Number),
  texts: createArrayType(ARRAY_TYPE_OIDS.text, String),
  int8s: createArrayType(ARRAY_TYPE_OIDS.int8, BigInt),
  float8s: createArrayType(ARRAY_TYPE_OIDS.float8, Number),
  uuids: createArrayType(ARRAY_TYPE_OIDS.uuid, String),
}

function createArrayType(oid: number, read: (text: string) => ArrayItem): PostgresType {
  return {
    to: oid,
    from: [oid],
    serialize: serializeArray,
    parse: (text: string) => parse(text, read),
  }
}

/** A one-dimensional array literal; an existing literal is passed on. */
function serializeArray(items: readonly ArrayItem[] | string): string {
  if (typeof items === 'string') return items
  return `{${items.map(serializeItem).join(',')}}`
}

function serializeItem(item: ArrayItem): string {
  if (item === null) return 'NULL'
  return typeof item === 'string' ? `"${item.replace(/["\\]/g, '\\$&')}"` : String(item)
}
