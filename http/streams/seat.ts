import type { Socket } from 'node:net'
import type { KeyRecord, KeyStore } from '../../persistence/keys.ts'
import type { Ending } from '../../realtime/presence.ts'
import type { Realtime } from '../../realtime/realtime.ts'
import { CLOSE } from './frames.ts'
import { streamKey } from './keys.ts'
import type { Outlet } from './outlet.ts'

/** A socket's place among the streams of its key, taken before the upgrade is answered. */
export interface Seat {
  readonly key: KeyRecord
  /** From here on the service can end the socket. */
  bind(out: Outlet): void
}

interface SeatParts {
  readonly realtime: Pick<Realtime, 'enter'>
  readonly keys: Pick<KeyStore, 'hash'>
}

/** Refuses one stream too many of a key; the seat is free again when the connection ends. */
export function takeSeat(
  { realtime, keys }: SeatParts,
  connection: Socket,
  key: KeyRecord,
  secret: string,
): Seat {
  let out: Outlet | null = null
  let ending: Ending | null = null
  const end = (why: Ending) => {
    ending = why
    if (out !== null) close(out, why)
  }
  const leave = realtime.enter({ kind: 'socket', key: streamKey(key, secret, keys), end })
  connection.once('close', leave)
  // It may have gone while its key was looked up: then no close comes any more.
  if (connection.destroyed) leave()
  return {
    key,
    bind(outlet) {
      out = outlet
      if (ending !== null) close(out, ending)
    },
  }
}

function close(out: Outlet, why: Ending): void {
  if (why === 'revoked') out.close(CLOSE.forbidden, 'the key was revoked or has expired')
  else out.close(CLOSE.restart, 'the service restarts')
}
