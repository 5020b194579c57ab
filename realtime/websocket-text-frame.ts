/** Encodes WebSocket text frames. */

const TEXT_AND_LAST = 0x81
/** From these lengths on, the header has two and eight length bytes. */
const [TWO_BYTES, EIGHT_BYTES] = [126, 65_536]

/**
 * Encodes a server's message (RFC 6455, 5.2): one text frame, unmasked and uncompressed. Encoded
 * once for all sockets.
 */
export function encodeWebSocketTextFrame(text: string): Buffer {
  const length = Buffer.byteLength(text)
  const head = length < TWO_BYTES ? 2 : length < EIGHT_BYTES ? 4 : 10
  const frame = Buffer.allocUnsafe(head + length)
  frame[0] = TEXT_AND_LAST
  if (head === 2) frame[1] = length
  else if (head === 4) {
    frame[1] = 126
    frame.writeUInt16BE(length, 2)
  } else {
    frame[1] = 127
    frame.writeBigUInt64BE(BigInt(length), 2)
  }
  frame.write(text, head)
  return frame
}
