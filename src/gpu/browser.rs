//! Which browser this is, or Node, as far as what to do about missing WebGPU depends on it.

/// A family of browsers, or what stands in for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Browser {
    /// Chrome, Edge, and others made from Chromium.
    Chromium,
    /// Firefox, but not on iOS.
    Firefox,
    /// Safari, and every browser on iOS.
    Safari,
    /// Node, whose WebGPU comes from the npm package `webgpu`.
    Node,
    /// None of these.
    Other,
}

impl Browser {
    /// The browser that gives this as its `navigator.userAgent`.
    ///
    /// ```
    /// use wgpu_bert::gpu::Browser;
    ///
    /// let user_agent = "Mozilla/5.0 (X11; Linux x86_64; rv:153.0) Gecko/20100101 Firefox/153.0";
    /// assert_eq!(Browser::from_user_agent(user_agent), Browser::Firefox);
    /// ```
    pub fn from_user_agent(user_agent: &str) -> Self {
        // Most name themselves after all that came before them, so the latest must be looked for first.
        let families = [
            ("Firefox/", Self::Firefox),
            ("Chrome/", Self::Chromium),
            ("AppleWebKit/", Self::Safari),
            ("Node.js/", Self::Node),
        ];
        let family = families.into_iter().find(|(word, _)| user_agent.contains(word));
        family.map_or(Self::Other, |(_, browser)| browser)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browsers_are_told_apart() {
        let webkit = "AppleWebKit/537.36 (KHTML, like Gecko)";
        for (user_agent, browser) in [
            (
                format!("Mozilla/5.0 (X11; Linux x86_64) {webkit} Chrome/156.0.0.0 Safari/537.36"),
                Browser::Chromium,
            ),
            (
                format!("Mozilla/5.0 (Windows NT 10.0) {webkit} Chrome/156.0 Safari/537.36 Edg/156.0"),
                Browser::Chromium,
            ),
            ("Mozilla/5.0 (Windows NT 10.0; rv:153.0) Gecko/20100101 Firefox/153.0".into(), Browser::Firefox),
            (format!("Mozilla/5.0 (Macintosh) {webkit} Version/26.0 Safari/605.1.15"), Browser::Safari),
            (
                format!("Mozilla/5.0 (iPhone) {webkit} CriOS/156.0 Mobile/15E148 Safari/604.1"),
                Browser::Safari,
            ),
            (
                format!("Mozilla/5.0 (iPhone) {webkit} FxiOS/153.0 Mobile/15E148 Safari/605.1.15"),
                Browser::Safari,
            ),
            ("Node.js/24".into(), Browser::Node),
            ("Something/1.0".into(), Browser::Other),
        ] {
            assert_eq!(Browser::from_user_agent(&user_agent), browser, "{user_agent}");
        }
    }
}
