/** Headers that are never taken from a buyer: they choose the host, carry credentials, or belong to the connection. */

const FORBIDDEN = new Set([
  ...['host', 'cookie', 'cookie2', 'authorization', 'forwarded', 'connection', 'keep-alive', 'te'],
  ...['trailer', 'transfer-encoding', 'upgrade', 'content-length', 'content-type', 'accept'],
  ...['accept-encoding', 'expect', 'user-agent', 'via', 'origin', 'referer', 'x-real-ip'],
  ...['x-api-key', 'x-call-id', 'x-caller', 'x-tool', 'x-http-method-override', 'idempotency-key'],
])

/** Headers that no credential can be in: one of them would choose another host, or break the request. */
const NO_CREDENTIAL =
  /^(host|connection|keep-alive|te|trailer|transfer-encoding|upgrade|expect|accept|content-.*|forwarded|via|x-forwarded-.*|x-original-.*)$/

export const canHeaderCarryCredential = (name: string): boolean =>
  !NO_CREDENTIAL.test(name.toLowerCase())

export const isForbiddenRequestHeader = (name: string): boolean => {
  const lower = name.toLowerCase()
  const isToken = /^[a-z0-9!#$%&'*+.^_`|~-]{1,64}$/.test(lower)
  return (
    !isToken || FORBIDDEN.has(lower) || /^(x-forwarded|proxy-|sec-|webhook-|x-original)/.test(lower)
  )
}
