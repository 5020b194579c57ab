import { html } from '../html-template-tag.ts'

/** The key of a visitor, made by a button and kept in the tab by `assets/tab-key.js`. */
export const renderBrowserTabKeySection = (starterUsdc: number) =>
  html`<div>
    <button type="button" id="make-key" disabled>Make a key</button>
    <p class="dim small" id="own-key-step">
      A key is an agent with ${starterUsdc} USDC of starter credits. It is kept in this tab only:
      copy it before you close the tab.
    </p>
    <div id="key" hidden>
      <p><b>Your key</b>, in this tab only: copy it before you close the tab.</p>
      <div class="copyable">
        <pre tabindex="0" role="region" aria-label="Your key"><code></code></pre>
        <button type="button" hidden>Copy</button>
      </div>
      <div class="row">
        <span class="dim">Balance: <b data-balance>–</b></span
        ><a href="/">Fund this agent</a
        ><button type="button" class="quiet" id="forget-key">Forget the key</button>
      </div>
    </div>
    <div id="key-problem" role="alert"></div>
  </div>`
