import { SettingError } from '../../core/setting-error.ts'
import { describeDatabase, type DatabaseAddress } from './database-address.ts'

/** Says in one line why a database cannot be used. */

type Failure = Error & { readonly code?: string; readonly errors?: readonly Failure[] }

/** By SQLSTATE and by error code of Node and of the driver. */
const REASONS: Readonly<Record<string, (target: DatabaseAddress) => string>> = {
  ECONNREFUSED: () => 'nothing listens there',
  ENOENT: () => 'there is no socket',
  ENOTFOUND: (target) => `there is no host ${'host' in target ? target.host : ''}`,
  EAI_AGAIN: (target) => `the name ${'host' in target ? target.host : ''} cannot be resolved now`,
  EHOSTUNREACH: () => 'the host cannot be reached',
  ENETUNREACH: () => 'the network cannot be reached',
  ETIMEDOUT: () => 'no answer',
  CONNECT_TIMEOUT: () => 'no answer within 4 seconds',
  CONNECTION_CLOSED: () =>
    'the server closes the connection; is it PostgreSQL, and does it want sslmode=require?',
  ECONNRESET: () =>
    'the server closes the connection; is it PostgreSQL, and does it want sslmode=require?',
  EACCES: () => 'its socket may not be used by this user',
  '28P01': ({ user }) => `the password of ${user} is refused; one with a % must write it as %25`,
  '28000': ({ user }) =>
    `${user} may not log in there, or not without encryption (sslmode=require)`,
  '3D000': ({ database }) => `there is no database ${database}`,
  '42501': ({ user, database }) =>
    `${user} may not create tables in ${database}: grant all on schema public, or make it the owner`,
  '25006': () => 'it is read only: a replica, or default_transaction_read_only is on',
  '53300': () => 'it has no connection left: raise max_connections or lower DATABASE_CONNECTIONS',
  '57P03': () => 'it is starting up or shutting down',
  '08P01': () =>
    'what answers refuses the settings of a session; a pooler such as PgBouncer must be bypassed, or run in session mode with ignore_startup_parameters',
  SASL_SIGNATURE_MISMATCH: () => 'it does not know the password that it has accepted',
  ERR_TLS_CERT_ALTNAME_INVALID: () => 'its certificate is for another host (sslmode=verify-ca)',
  CERT_HAS_EXPIRED: () => 'its certificate has expired',
}
const UNTRUSTED =
  'its certificate is signed by nobody known: give the authority as sslrootcert, or sslmode=require'
const UNTRUSTED_CODES = [
  'SELF_SIGNED_CERT_IN_CHAIN',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
]

/** Why this database cannot be used; null for an error that has another cause. */
function explainConnectFailure(error: unknown, target: DatabaseAddress): string | null {
  const { code = '', errors, cause, message } = error as Failure
  // A name with several addresses fails with one error for each.
  if (errors !== undefined && errors.length > 0) return explainConnectFailure(errors[0], target)
  if (UNTRUSTED_CODES.includes(code)) return UNTRUSTED
  if (code === 'ERR_SSL_WRONG_VERSION_NUMBER' || code === 'EPROTO')
    return 'it does not encrypt (sslmode=disable)'
  const reason = REASONS[code]
  if (reason !== undefined) return reason(target)
  if (code.startsWith('ERR_TLS') || code.startsWith('ERR_SSL'))
    return `the encrypted connection fails: ${code}`
  if (cause !== undefined) return explainConnectFailure(cause, target)
  return code === '22023' || code === '42704' ? message : null
}

/** The error in terms of the setting, if it is one of them. */
export function toDatabaseSettingError(error: unknown, target: DatabaseAddress): unknown {
  const why = explainConnectFailure(error, target)
  return why === null
    ? error
    : new SettingError(`DATABASE_URL cannot be used: ${describeDatabase(target)}: ${why}`)
}
