/** Errors of requests that no route could take: a part of the table in `errors.ts`. */
export const REQUEST_ERROR_DEFINITIONS = {
  invalid_input: { status: 400, title: 'The request does not match its schema.' },
  conflicting_credentials: { status: 400, title: 'Two different API keys were sent.' },
  body_too_large: { status: 413, title: 'The request is larger than this route accepts.' },
  headers_too_large: { status: 431, title: 'The headers are larger than this station accepts.' },
  request_timeout: { status: 408, title: 'The request did not arrive in time.' },
  origin_not_allowed: { status: 403, title: 'A page of another site may not use this address.' },
  csrf_token_invalid: { status: 403, title: 'The token of the session is missing or wrong.' },
  unsupported_media_type: { status: 415, title: 'The body must be application/json.' },
  not_found: { status: 404, title: 'There is nothing at this address.' },
  method_not_allowed: { status: 405, title: 'This address does not answer that method.' },
} as const
