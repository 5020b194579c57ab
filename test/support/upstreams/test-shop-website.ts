import type { IncomingMessage, ServerResponse } from 'node:http'
import { startFixtureServer, type FixtureServer, type TeardownScope } from './fixture-server.ts'

/** A web shop with a login and forms. */

export interface TestShopWebsite extends FixtureServer {
  /** Every submitted form, unparsed. */
  readonly posted: { path: string; type: string; body: string; cookie: string }[]
}

const page = (title: string, body: string) =>
  `<!doctype html><html><head><title>${title}</title></head><body>${body}</body></html>`

const LOGIN = page(
  'Log in',
  `<a href="/help">Help</a>
   <form action="/search"><input name="q" placeholder="Search the shop"><button>Find</button></form>
   <form id="login-form" method="post" action="/login">
     <input type="hidden" name="csrf" value="t&amp;k&quot;1">
     <label for="mail">E-mail address:</label> <input id="mail" name="email" type="email" required>
     <label>Password * <input name="pass" type="password"></label>
     <input type="submit" name="go" value="Log in">
   </form>
   <form method="post" action="/away"><button>Away</button></form>`,
)
const ACCOUNT = page(
  'Account of Ada',
  `<h1>Welcome, Ada</h1>
   <form method="post" action="order" enctype="multipart/form-data">
     <input type="hidden" name="item" value="lamp 7">
     <label>Size <select name="size"><option value="s">Small</option><option value="l">Large</option></select></label>
     <fieldset><legend>Colour</legend>
       <label><input type="radio" name="colour" value="red" checked> Red</label>
       <label><input type="radio" name="colour" value="blue"> Blue</label></fieldset>
     <label><input type="checkbox" name="terms" required> I accept the terms, and conditions</label>
     <label><input type="checkbox" name="news" value="weekly" checked> Newsletter</label>
     <textarea name="note" aria-label="Note">
old note</textarea>
     <input name="never" value="x" disabled><input name="voucher" value="v1" readonly>
     <input type="file" name="picture">
     <button name="act" value="save">Save for later</button>
     <button name="act" value="buy">Buy now</button>
   </form>
   <form method="post" action="/crash"><input name="a"><button>Crash</button></form>`,
)
const ORDER = page(
  'Order',
  `<dl><dt>Order number</dt><dd>A-1001</dd></dl>
   <table><tr><th>Total</th><td>19.90 EUR</td></tr></table>
   <p>Status: on its way</p><p class="eta">Monday</p><ul id="items"><li>lamp</li></ul>\0`,
)
/** A page rendered entirely by a script. */
const SCRIPTED = page(
  'Scripted',
  `<div id="root"></div><script>
    setTimeout(() => {
      root.innerHTML = '<label>Name <input id="who"></label><button>Greet</button><p id="said"></p>'
      root.querySelector('button').onclick = async () => {
        const reply = await fetch('/greet', { method: 'POST', body: who.value })
        said.textContent = await reply.text()
      }
    }, 100)</script>`,
)
const HOSTILE = page(
  'Hostile',
  `<form action="javascript:alert(1)" method="post"><input name="x"><button>Run</button></form>
   <form action="http://[::1]:9/" method="post"><input name="y"><button>Inwards</button></form>
   <form action="file:///etc/passwd"><input name="z"><button>File</button></form>
   <a href="http://169.254.169.254/latest/">Metadata</a><a href="javascript:void 0">Nothing</a>
   ${'<form><div>'.repeat(3_000)}${'<input name="__proto__" value="1">'.repeat(3_000)}`,
)

/**
 * A shop with a login, a cookie, and an order form with every kind of field. `/crash` reads a form
 * and drops the connection, `/away` redirects to a forbidden address, `/to?<url>` to any address.
 */
export async function startTestShopWebsite(t: TeardownScope): Promise<TestShopWebsite> {
  const posted: TestShopWebsite['posted'] = []
  const served = await startFixtureServer(t, (request, response) => {
    if (request.method === 'GET') return respondToGet(request, response)
    void bodyOf(request).then((body) => {
      const { url: path = '', headers } = request
      const type = headers['content-type'] ?? ''
      posted.push({ path, type, body, cookie: headers.cookie ?? '' })
      respondToPost(path, body, request, response)
    })
  })
  return { ...served, posted }
}

function respondToGet({ url = '', headers }: IncomingMessage, response: ServerResponse): void {
  const [path, query = ''] = url.split(/\?(.*)/s)
  const html = (text: string, more: Record<string, string | string[]> = {}, status = 200) =>
    void response
      .writeHead(status, { 'content-type': 'text/html; charset=utf-8', ...more })
      .end(text)
  const known = headers.cookie?.includes('session=ada') === true
  if (path === '/login') return html(LOGIN, { 'set-cookie': ['pre=1; Path=/', 'old=1; Max-Age=0'] })
  if (path === '/account') return known ? html(ACCOUNT) : html(page('No', 'Log in first'), {}, 403)
  if (path === '/order/1') return html(ORDER)
  if (path === '/search')
    return html(page('Found', `<p id="asked">${decodeURIComponent(query)}</p>`))
  if (path === '/scripted') return html(SCRIPTED)
  if (path === '/hostile') return html(HOSTILE)
  if (path === '/spin') return html(page('Spin', '<script>for(;;);</script>'))
  if (path === '/to') return void response.writeHead(302, { location: query }).end()
  if (path === '/data')
    return void response.writeHead(200, { 'content-type': 'application/json' }).end('{"a":"<b>"}')
  html(page('Lost', 'There is nothing here'), {}, 404)
}

function respondToPost(
  path: string,
  body: string,
  { headers }: IncomingMessage,
  response: ServerResponse,
) {
  const leave = (location: string, more = {}) =>
    void response.writeHead(303, { location, ...more }).end()
  if (path === '/crash') return void response.destroy()
  if (path === '/away') return leave('http://169.254.169.254/latest/meta-data/')
  if (path === '/order') return leave('/order/1')
  if (path === '/greet') return void response.end(`Hello, ${body}!`)
  const sent = new URLSearchParams(body)
  const right = sent.get('csrf') === 't&k"1' && headers.cookie === 'pre=1'
  if (path === '/login' && right && sent.get('pass') === 'secret, and more')
    return leave('/account', { 'set-cookie': 'session=ada; HttpOnly; Path=/' })
  response.writeHead(401, { 'content-type': 'text/html' }).end(page('Wrong', 'Wrong password'))
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const pieces: Buffer[] = []
  for await (const piece of request) pieces.push(piece as Buffer)
  return Buffer.concat(pieces).toString()
}
