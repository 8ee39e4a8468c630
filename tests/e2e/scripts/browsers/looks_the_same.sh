for p in app.update.enabled app.normandy.enabled network.captive-portal-service.enabled network.connectivity-service.enabled toolkit.telemetry.enabled datareporting.policy.dataSubmissionEnabled browser.safebrowsing.malware.enabled browser.safebrowsing.phishing.enabled extensions.systemAddon.update.enabled browser.shell.checkDefaultBrowser; do
    echo "user_pref(\"$p\", false);"
done > $F/user.js
echo 'user_pref("services.settings.server", "data:,");' >> $F/user.js
MOZ_CRASHREPORTER_DISABLE=1 firefox-esr --headless --no-remote --profile $F --window-size 400,300 --screenshot $W/shot.png file://$D/page.html
