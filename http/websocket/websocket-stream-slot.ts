import type { Socket } from 'node:net'
import type { ApiKeyRecord, ApiKeyStore } from '../../persistence/agents/api-key-store.ts'
import type { StreamEndReason } from '../../realtime/open-stream-registry.ts'
import type { RealtimeService } from '../../realtime/realtime-service.ts'
import { WS_CLOSE_CODES } from './websocket-frames-from-clients.ts'
import { toApiKeyDataKeptByStream } from '../stream-api-key-and-cursor.ts'
import type { WsFrameWriter } from './websocket-frame-writer.ts'

/** A socket's slot among the streams of its key, taken before the upgrade response. */
export interface ApiKeyStreamSlot {
  readonly key: ApiKeyRecord
  /** Lets the service end the socket from here on. */
  bind(out: WsFrameWriter): void
}

interface StreamSlotDeps {
  readonly realtime: Pick<RealtimeService, 'enter'>
  readonly keys: Pick<ApiKeyStore, 'hash'>
}

/** Takes a slot; throws when the key has too many streams. The slot is released when the connection ends. */
export function acquireApiKeyStreamSlot(
  { realtime, keys }: StreamSlotDeps,
  connection: Socket,
  key: ApiKeyRecord,
  secret: string,
): ApiKeyStreamSlot {
  let out: WsFrameWriter | null = null
  let ending: StreamEndReason | null = null
  const end = (why: StreamEndReason) => {
    ending = why
    if (out !== null) closeForEnding(out, why)
  }
  const leave = realtime.enter({
    kind: 'socket',
    key: toApiKeyDataKeptByStream(key, secret, keys),
    end,
  })
  connection.once('close', leave)
  // A connection that closed during the key lookup emits no further close.
  if (connection.destroyed) leave()
  return {
    key,
    bind(outlet) {
      out = outlet
      if (ending !== null) closeForEnding(out, ending)
    },
  }
}

function closeForEnding(out: WsFrameWriter, why: StreamEndReason): void {
  if (why === 'revoked') out.close(WS_CLOSE_CODES.forbidden, 'the key was revoked or has expired')
  else out.close(WS_CLOSE_CODES.restart, 'the service restarts')
}
