/** Returns the target of a request without its origin: forward proxies send the absolute form (RFC 9112, 3.2.2). */
export const requestPath = ({ url }: { readonly url: string }): string =>
  url.startsWith('/') ? url : url.replace(/^https?:\/\/[^/?]*/i, '')
