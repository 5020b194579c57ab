import { html, type Html } from '../html-template-tag.ts'
import { renderHtmlPage } from './page-layout.ts'

/** The page of an owner. It holds no data: `assets/owner.js` signs in and reads it. */
export const renderOwnerPage = (): string =>
  renderHtmlPage({
    title: 'Your agents',
    section: 'owner',
    main: html`${SIGN_IN}${AGENTS}
      <noscript
        ><p class="note">
          This page needs scripts: it reads your agents after you sign in.
        </p></noscript
      >`,
    scripts: ['owner.js'],
  })

const SIGN_IN = html`<div id="sign-in" hidden>
  <h1>Your agents</h1>
  <p class="lead">
    See what your agents spend, bound it, hand out keys that are bound too, and stop an agent at
    once.
  </p>
  <div id="sign-in-problem" role="alert"></div>
  <form class="card" id="link-form" hidden>
    <h2>Your link</h2>
    <p>
      It signs you in once, in this browser. If you did not ask for it, close this page: nothing
      happens.
    </p>
    <button>Sign in</button>
  </form>
  <div class="columns" id="proofs">
    <form class="card" id="key-form">
      <h2>With the key of an agent</h2>
      <p>The one that manages its keys, from onboarding. Not the key that your program has.</p>
      <div class="field">
        <label for="key-field">API key</label>
        <input id="key-field" type="password" autocomplete="off" spellcheck="false" required />
      </div>
      <button>Sign in</button>
    </form>
    <form class="card" id="mail-form" hidden>
      <h2>With a link by e-mail</h2>
      <p>For an address that you have confirmed on this page before.</p>
      <div class="field">
        <label for="mail-field">E-mail address</label>
        <input id="mail-field" type="email" autocomplete="email" required />
      </div>
      <button>Send me a link</button>
      <p id="mail-said" role="status"></p>
    </form>
  </div>
</div>`

/** A figure; the script fills the value. */
const figure = (name: string, label: string): Html =>
  html`<div>
    <dt>${label}</dt>
    <dd data-figure="${name}">–</dd>
  </div>`

const AGENTS = html`<div id="agents" hidden>
  <div class="spread">
    <h1 id="agent-name">Your agents</h1>
    <div class="row">
      <button type="button" class="quiet" id="sign-out">Sign out</button>
    </div>
  </div>
  <p class="dim small"><code id="agent-id"></code> · <a id="fund" href="/">Fund this agent</a></p>
  <nav aria-label="Agents"><ul class="tabs" id="agent-tabs"></ul></nav>
  <div id="problem" role="alert"></div>
  <section class="freeze" id="freeze-box" aria-labelledby="freeze-title">
    <div>
      <h2 id="freeze-title">Active</h2>
      <p id="freeze-words"></p>
    </div>
    <button type="button" id="freeze" class="danger">Freeze</button>
  </section>
  <dl class="figures" id="figures">
    ${figure('balance_usdc', 'Available')}${figure('held_usdc', 'Held by running calls')}${figure('spent_today_usdc', 'Spent today')}${figure('spent_total_usdc', 'Spent in all')}${figure('calls_today', 'Calls today')}
  </dl>
  <section class="card" aria-labelledby="spending-title">
    <div class="spread">
      <h2 id="spending-title">Spending of the last 30 days</h2>
      <span class="dim" id="spending-sum"></span>
    </div>
    <div
      id="chart"
      role="img"
      aria-label="Bars of spending by day; the same figures are in the table below."
    ></div>
    <ul class="legend" id="legend"></ul>
    <details>
      <summary>The same as a table</summary>
      <div
        class="scroll"
        tabindex="0"
        role="group"
        aria-label="Spending by day and tool"
        id="spending-table"
      ></div>
    </details>
  </section>
  <div class="columns">
    <section class="card" aria-labelledby="packs-title">
      <h2 id="packs-title">Backpacks and fuses</h2>
      <p class="dim small">
        A Backpack bounds what a key that is bound to it spends: by call, UTC day and UTC month.
        Emptying a field removes its limit, after a question.
      </p>
      <div id="packs"></div>
      <details id="new-pack">
        <summary>New Backpack</summary>
        <form id="pack-form">
          <div class="field">
            <label for="pack-name">Name</label>
            <input id="pack-name" maxlength="64" required />
          </div>
          <div class="field">
            <label for="pack-day">Limit a day, USDC</label>
            <input id="pack-day" inputmode="decimal" />
          </div>
          <button>Create</button>
          <p id="pack-said" role="status"></p>
        </form>
      </details>
    </section>
    <section class="card" aria-labelledby="keys-title">
      <h2 id="keys-title">Keys</h2>
      <p class="dim small">
        Give a program a bound key: it spends within its Backpack, manages nothing, and cannot
        unfreeze.
      </p>
      <div id="new-key" hidden>
        <p><b>The new key</b> of <span id="new-key-agent"></span>, shown once:</p>
        <div class="copyable">
          <pre tabindex="0" role="region" aria-label="The new key"><code></code></pre>
          <button type="button" hidden>Copy</button>
        </div>
      </div>
      <form id="bound-key-form">
        <div class="field">
          <label for="bound-name">Name of the new key</label>
          <input id="bound-name" maxlength="64" required />
        </div>
        <div class="field">
          <label for="bound-pack">Bound to</label>
          <select id="bound-pack" required></select>
        </div>
        <button>Make a bound key</button>
      </form>
      <ul class="list" id="keys"></ul>
    </section>
  </div>
  <section class="card wide" aria-labelledby="calls-title">
    <h2 id="calls-title">Calls</h2>
    <div class="scroll" tabindex="0" role="group" aria-label="Calls" id="calls"></div>
    <p id="receipt" role="status"></p>
    <button type="button" class="quiet" id="more-calls" hidden>Older calls</button>
  </section>
  <section class="card wide" aria-labelledby="refused-title">
    <h2 id="refused-title">Refused</h2>
    <p class="dim small">What a limit, a budget or a freeze has stopped. It cost nothing.</p>
    <div class="scroll" tabindex="0" role="group" aria-label="Refused" id="refused"></div>
  </section>
  <section class="card wide" aria-labelledby="statement-title">
    <h2 id="statement-title">Statement</h2>
    <div class="scroll" tabindex="0" role="group" aria-label="Statement" id="statement"></div>
    <button type="button" class="quiet" id="more-statement" hidden>Older movements</button>
  </section>
  <div class="columns">
    <section class="card" aria-labelledby="alerts-title">
      <h2 id="alerts-title">Alerts</h2>
      <p class="dim small" id="alerts-words"></p>
      <form id="alerts-form">
        <div class="field">
          <label for="alert-mail">E-mail address</label>
          <input id="alert-mail" type="email" maxlength="254" autocomplete="email" />
        </div>
        <div class="field">
          <label for="alert-chat">Telegram chat id</label>
          <input id="alert-chat" inputmode="numeric" pattern="-?[0-9]{1,20}" />
        </div>
        <button>Save</button>
        <p id="alerts-said" role="status"></p>
      </form>
    </section>
    <section class="card" aria-labelledby="more-title">
      <h2 id="more-title">Signing in</h2>
      <form id="contact-form" hidden>
        <div class="field">
          <label for="contact-mail">Sign in by e-mail</label>
          <p class="dim small" id="contact-words"></p>
          <input id="contact-mail" type="email" maxlength="254" autocomplete="email" required />
        </div>
        <button>Send a link that confirms it</button>
        <p id="contact-said" role="status"></p>
      </form>
      <form id="add-form">
        <div class="field">
          <label for="add-field">Add another agent by its key</label>
          <input id="add-field" type="password" autocomplete="off" spellcheck="false" required />
        </div>
        <button class="quiet">Add</button>
        <div id="add-problem" role="alert"></div>
      </form>
    </section>
  </div>
</div>`
